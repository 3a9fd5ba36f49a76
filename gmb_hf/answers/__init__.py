"""What checkpoints answer to prompts, and what judges think of it: scores by run and step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmb_hf._lazy import load

if TYPE_CHECKING:
    from gmb_hf.answers.agreement import Normalised as Normalised
    from gmb_hf.answers.agreement import consistency as consistency
    from gmb_hf.answers.answers_file import Answer as Answer
    from gmb_hf.answers.answers_file import read_answers as read_answers
    from gmb_hf.answers.asking import Asking as Asking
    from gmb_hf.answers.asking import Judge as Judge
    from gmb_hf.answers.cache import ScoreCache as ScoreCache
    from gmb_hf.answers.checkpoints import find_checkpoints as find_checkpoints
    from gmb_hf.answers.generating import Sampling as Sampling
    from gmb_hf.answers.generating import generate as generate
    from gmb_hf.answers.judges import load_judge as load_judge
    from gmb_hf.answers.rating import rate as rate
    from gmb_hf.answers.scores_file import Scores as Scores
    from gmb_hf.answers.scores_file import write_scores as write_scores
    from gmb_hf.answers.sources import find_model as find_model

_HOME = {
    "Answer": "answers_file",
    "Asking": "asking",
    "Judge": "asking",
    "Normalised": "agreement",
    "Sampling": "generating",
    "ScoreCache": "cache",
    "Scores": "scores_file",
    "consistency": "agreement",
    "find_checkpoints": "checkpoints",
    "find_model": "sources",
    "generate": "generating",
    "load_judge": "judges",
    "rate": "rating",
    "read_answers": "answers_file",
    "write_scores": "scores_file",
}
__all__ = [
    "Answer",
    "Asking",
    "Judge",
    "Normalised",
    "Sampling",
    "ScoreCache",
    "Scores",
    "consistency",
    "find_checkpoints",
    "find_model",
    "generate",
    "load_judge",
    "rate",
    "read_answers",
    "write_scores",
]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
