"""What a caller has seen of one run, over as many connections as it took."""

from __future__ import annotations

import time

from benchmarks.soak.caller import Event, Wrong
from benchmarks.soak.scripts import Script


class Account:
    """Takes a run's events, and sees to it that none is missing, twice, or not what the script says.

    Args:
        script: what the run was to do.

    Attributes:
        last: the number of the last event.
        run_id: the run's, None before the first event.
        is_over: whether the run's end was seen.
        delays: seconds that words took from the model server to here.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.last = 0
        self.run_id: str | None = None
        self.is_over = False
        self.delays: list[float] = []
        self._words: list[str] = []

    def take(self, event: Event) -> None:
        """Take the next event.

        Raises:
            Wrong: it is not the one that must come now.
        """
        if self.is_over:
            raise Wrong(f"{event.name} came after the end")
        if event.seq != self.last + 1:
            raise Wrong(f"event {event.seq} ({event.name}) came after {self.last}: {event.data}")
        self.last = event.seq
        run_id = self.run_id = self.run_id or event.data["run_id"]
        if event.data["run_id"] != run_id:
            raise Wrong(f"an event of {event.data['run_id']} came in the stream of {run_id}")
        if event.name == "text.delta":
            self._take_word(event.data["text"])
        elif event.name.startswith("run.") and event.name != "run.started":
            self._take_end(event)

    def _take_word(self, word: str) -> None:
        place, _, written = word.partition("@")
        if place != str(len(self._words)):
            raise Wrong(f"word {place} came in place of {len(self._words)}")
        self._words.append(word)
        self.delays.append(time.monotonic() - float(written))

    def _take_end(self, event: Event) -> None:
        self.is_over = True
        answer, script = event.data, self.script
        if event.name != "run.completed" or answer["finish_reason"] != "stop":
            raise Wrong(f"ended by {event.name}: {answer}")
        if answer["content"] != "".join(self._words) or len(self._words) != script.words:
            raise Wrong(f"told {self._words}, and answered {answer['content']!r}")
        results = [run.get("result") for run in answer["tool_runs"]]
        if results != ([script.result] if script.tool else []):
            raise Wrong(f"ran {answer['tool_runs']}")
