"""The shapes of keys and tokens, and the words that secrets go by, as data.

Prefixes, alphabets and lengths are facts that the rules of gitleaks (MIT) and of detect-secrets (Apache-2.0) tell, and
for those that both lack the issuers' own documentation. Lengths are lower bounds here: a message may cut a token short,
and masking one too many costs less than showing one. `tests/unit/privacy/test_secret_shapes.py` holds the table against
gitleaks' own patterns.
"""

from __future__ import annotations

PREFIXES: dict[str, tuple[str, ...]] = {
    # Letters and digits alone, so that names in a program (`hf_hub_download`) are none.
    r"[A-Za-z0-9]{16,}": (
        "hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_", "gsk_", "xai-", "pplx-", "AKCp",
        "cmVmd", "LTAI", "EZAK", "EZTK", "pnu_", "dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpca_",
        "shppa_", "shpss_", "sntryu_", "rubygems_", "pul-", "rdme_", "lin_api_", "ntn_", "glptt-", "r8_", "fw_",
        "rpa_", "tfp_", "figd_", "CLOJARS_", "p8e-", "phc_", "phx_", "lsv2_pt_", "lsv2_sk_", "whsec_",
        "sm_aat_", "sm_pat_", "sm_sat_",
    ),
    r"[A-Za-z0-9]{10,}": (
        "sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_", "shippo_live_", "shippo_test_",
    ),
    r"[A-Za-z0-9.-]{6,}": (
        "xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-", "xoxo-", "xoxe", "xapp-",
    ),
    # The parts of these are joined by hyphens, dots or underscores.
    r"[A-Za-z0-9_.~+/=-]{12,}": (
        "github_pat_", "glpat-", "glcbt-", "gldt-", "glffct-", "glft-", "glimt-", "glagent-", "gloas-", "glrt-",
        "glrtr-", "glsoat-", "_gitlab_session=", "GR1348941", "nvapi-", "dckr_pat_", "dckr_oat_", "dp.pt.",
        "dt0c01.", "sk-proj-", "sk-ant-", "sk-svcacct-", "sk-admin-", "sk-or-", "sk-lf-", "pk-lf-", "ya29.",
        "GOCSPX-", "AIza", "pypi-AgE", "hvs.", "hvb.", "ABSK", "bedrock-api-key-", "atlasv1.", "ATATT3",
        "ATCTT3", "ATBB", "EAAA", "EAAM", "EAAC", "fio-u-",
        "FLWSECK_TEST-", "FLWPUBK_TEST-", "duffel_test_", "duffel_live_", "pscale_tkn_", "pscale_oauth_",
        "pscale_pw_", "sntrys_", "sha256~", "xkeysib-", "xsmtpsib-", "glsa_", "ops_eyJ",
        "AGE-SECRET-KEY-1", "dnkey-", "NRAK-", "NRII-", "NRJS-", "HRKU-AA", "key-live-", "sl.u.",
        "tskey-", "waka_", "hubspot-pat-", "pat-na1-", "pat-eu1-", "eyJ", "ZXlK",
        "PMAK-", "tk-us-", "s-s4t2", "sq0atp-", "sq0csp-",
    ),
}  # fmt: skip
"""What a token begins with, by the pattern of what follows."""

SHAPES: dict[str, tuple[str, ...]] = {
    r"(?<![A-Za-z0-9])(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}": (
        "A3T", "AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA",
    ),
    r"(?<![A-Za-z0-9])sk-(?=[A-Za-z0-9_-]*(?:\d|[A-Z]))[A-Za-z0-9_-]{16,}": ("sk-",),
    r"(?<![A-Za-z0-9])pypi-(?=[A-Za-z0-9_-]*[A-Z])[A-Za-z0-9_-]{16,}": ("pypi-",),
    r"(?<![A-Za-z0-9])dapi[a-f0-9]{32}(?:-\d)?": ("dapi",),
    r"(?<![A-Za-z0-9])(?:SK|AC)[a-fA-F0-9]{32}(?![A-Za-z0-9])": ("SK", "AC"),
    r"(?<![A-Za-z0-9])key-[a-f0-9]{32}": ("key-",),
    r"(?<![A-Za-z0-9])[a-f0-9]{32}-us\d\d?(?!\w)": ("-us",),
    r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[a-f0-9]{64}": ("pat",),
    r"(?<![A-Za-z0-9])[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}": ("at.",),
    r"(?<![A-Za-z0-9])(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}"
    r"\.[A-Za-z0-9+/_=-]{30,}": (".acc",),
    r"(?<![A-Za-z0-9])ey[A-Za-z0-9]{15,}\.ey[\w/\\-]{15,}(?:\.[\w/\\=-]*)?": (".ey",),
    r"(?<![A-Za-z0-9])4b1d[A-Za-z0-9]{38}(?![A-Za-z0-9])": ("4b1d",),
    r"(?<![A-Za-z0-9])v1\.0-[a-f0-9]{24}-[a-f0-9]{40,}": ("v1.0-",),
    r"(?<![A-Za-z0-9])A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){1,3}": ("A3-",),
    r"(?<![A-Za-z0-9])ico-[A-Za-z0-9]{32}": ("ico-",),
    r"(?<![A-Za-z0-9])(?:fo1_[\w-]{40,}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{60,}={0,3})": ("fo1_", "fm1", "fm2_"),
    r"(?<![A-Za-z0-9])sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}": ("sgp_",),
    r"(?<![A-Za-z0-9])glc_[A-Za-z0-9+/]{32,}={0,3}": ("glc_",),
    r"(?<![A-Za-z0-9])SG\.[\w=.-]{40,}": ("SG.",),
    r"(?<![\w.])s\.(?=[A-Za-z]*\d)[A-Za-z0-9]{24}(?![A-Za-z0-9])": ("s.",),
    r"(?<![A-Za-z0-9])[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk": ("_mmk",),
    r"(?<![A-Za-z0-9])API-[A-Z0-9]{26}(?![A-Za-z0-9])": ("API-",),
    r"(?<![A-Za-z0-9_.~])[a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34}": ("Q~",),
    r"(?<![A-Za-z0-9])[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,}": (".",),
    r"(?<!\w)\d{8,10}:[A-Za-z0-9_-]{35}(?!\w)": (":",),
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
    r"|[a-z0-9]+\.webhook\.office\.com/webhookb2)/[^\s'\"<>]+": ("hooks.slack", "webhook"),
    r"(?P<keep>(?i:wandb)[^\r\n]{0,20}?)(?<![A-Za-z0-9])[a-f0-9]{40}(?![A-Za-z0-9])": ("wandb", "WANDB", "Wandb"),
    r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\s\S])*(?:-----END[ A-Z0-9_-]*-----)?": (
        "PRIVATE KEY",
    ),
}  # fmt: skip
"""Patterns of tokens that need more than a prefix, and hints of which one is in every text with such a token."""

LOWER_CASE = frozenset({
    "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "credential",
    "credentials", "creds", "authorization", "jwt", "bearer", "kennwort", "passwort", "contrasena", "contraseña",
})  # fmt: skip
"""Names of secrets by their last word."""

JOINED = (
    "password", "passwd", "passphrase", "pwd", "secret", "apikey", "accesskey", "secretkey", "privatekey", "authkey",
    "authtoken", "accesstoken", "apitoken", "hftoken", "hubtoken", "bearertoken", "refreshtoken", "sessiontoken",
    "githubtoken", "gitlabtoken", "idtoken", "accountkey", "sharedkey", "clientsecret",
)  # fmt: skip
"""How the last word of a name may end where its words are not set apart."""

KEY_OF = frozenset({
    "access", "account", "anthropic", "api", "app", "application", "auth", "aws", "azure", "client", "cohere", "comet",
    "database", "db", "decryption", "deploy", "encryption", "gcp", "google", "groq", "hmac", "jwt", "license", "master",
    "mistral", "neptune", "openai", "priv", "private", "rsa", "s3", "secret", "service", "session", "shared", "signing",
    "ssh", "storage", "stripe", "subscription", "wandb",
})  # fmt: skip
"""A key of these is a secret; a key of a cache, a table or a dictionary is none."""

PASS_OF = frozenset({
    "account", "admin", "bind", "database", "db", "ftp", "imap", "key", "keystore", "ldap", "login", "mail", "mongo",
    "my", "mysql", "pg", "postgres", "proxy", "rabbitmq", "redis", "root", "smtp", "sql", "ssh", "user", "vpn",
})  # fmt: skip
"""A pass of these is a password; that of a compiler or of a model is none."""

NO_TOKEN = frozenset({
    "audio", "bos", "boi", "boa", "begin", "cls", "current", "decoder", "dist", "distillation", "end", "eoa", "eoi",
    "eos", "eot", "extra", "first", "fake", "forced", "generated", "id", "image", "input", "last", "left", "mask",
    "max", "min", "new", "next", "no", "num", "nonspeech", "output", "pad", "padding", "patch", "per", "prev",
    "previous", "prompt", "query", "register", "right", "sep", "separator", "single", "sos", "sot", "special",
    "speech", "start", "stop", "suppress", "target", "text", "unk", "video", "vision", "vocab", "word",
})  # fmt: skip
"""A token of these is a piece of text, not what lets somebody in."""
