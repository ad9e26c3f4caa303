#!/usr/bin/env bash
# Comments FILE on the pull request of this workflow, or updates the comment that an earlier run made for the same target.
#
#     comment.sh FILE TARGET      with GH_TOKEN, GITHUB_REPOSITORY and PULL (its number)
set -u
file=$1
mark="<!-- dynalyze $(printf '%s' "$2" | sha256sum | cut -c1-16) -->"
{ printf '%s\n' "$mark"; cat "$file"; } > "$file.comment"
comments="repos/$GITHUB_REPOSITORY/issues/$PULL/comments"
id=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$mark\")) | .id" | head -n 1)
if [ -n "$id" ]; then
  gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --field "body=@$file.comment"
else
  gh api --silent "$comments" --field "body=@$file.comment"
fi || echo "::warning title=dynalyze::No comment was made: the job needs 'permissions: pull-requests: write', which pull requests of forks do not get."
