"""RAG without a retriever: the documents that one would have found, as texts with the question, and their scores."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.inputs import values
from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    made = Made(model, request, given)
    config = model.config
    documents = config.n_docs
    texts = (made.batch * documents, made.sequence)
    vocabulary = config.generator.vocab_size
    given["context_input_ids"] = values.tokens(made, texts, vocabulary=vocabulary)
    given["context_attention_mask"] = values.ones(made, texts)
    given["doc_scores"] = values.floats(made, (made.batch, documents))
    if request.train:
        given["reduce_loss"] = True
    return given
