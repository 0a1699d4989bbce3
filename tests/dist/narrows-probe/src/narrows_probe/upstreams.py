"""`dispatch` and `classify_error`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from narrows import Attempt, Block, Classified, Failure, FailureClass, Provider, Reply, Target, hookimpl

PATH = "/chat/completions"
JSON = ("content-type", "application/json")


class ProbeMarked(Provider):
    """An OpenAI-compatible upstream whose calls carry the header `x-probe`.

    Options: `mark`, the header's value.
    """

    base_url: str
    mark: str

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        """Send it as it is, marked."""
        headers = {**attempt.headers, "content-type": "application/json", "x-probe": self.mark}
        return await attempt.send(PATH, headers, attempt.body)


class ProbeLocal(Provider):
    """Answers in this process: its completion says which plugin made it."""

    @hookimpl
    async def dispatch(self, attempt: Attempt) -> Reply:
        """Send it the usual way; without `base_url` that ends in `answer`."""
        return await attempt.send(PATH, attempt.headers, attempt.body)

    async def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """A chat completion."""
        message = {"role": "assistant", "content": "answered by probe_local"}
        completion = {
            "id": "chatcmpl-probe",
            "object": "chat.completion",
            "created": 0,
            "model": json.loads(body)["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        return Reply.whole(200, json.dumps(completion).encode(), [JSON])


class ProbeVerdicts(Block):
    """Classifies failures whose body holds a word, anywhere.

    Options: `classes`, the class of each word.
    """

    classes: Mapping[str, FailureClass]

    @hookimpl
    def classify_error(self, failure: Failure, target: Target) -> Classified | None:
        """The class of the first word that is there; else not mine."""
        for word, failure_class in self.classes.items():
            if word.encode() in failure.body:
                return Classified(failure_class, evidence="probe")
        return None
