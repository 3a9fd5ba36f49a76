"""Answers of language models at their checkpoints, and judges that rate them."""

from typing import TYPE_CHECKING

from gmb_hf._lazy import lazy_names

if TYPE_CHECKING:
    from gmb_hf.protocol.answers.files import read_answers as read_answers
    from gmb_hf.protocol.answers.judges import Asking as Asking
    from gmb_hf.protocol.answers.judges import ScoreCache as ScoreCache
    from gmb_hf.protocol.answers.judges import load_judge as load_judge
    from gmb_hf.protocol.answers.judges import rate as rate
    from gmb_hf.protocol.answers.models import find_model as find_model

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Asking": "judges",
            "ScoreCache": "judges",
            "find_model": "models",
            "load_judge": "judges",
            "rate": "judges",
            "read_answers": "files",
        },
    )
