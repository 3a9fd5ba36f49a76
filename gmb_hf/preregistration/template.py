"""The text of an empty preregistration, a comment beside each field.

It is written from the models, so it can never name a field that they do not have.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gmb_hf.preregistration.document_errors import section_in
from gmb_hf.preregistration.documents import dump_yaml, json_like

_HEAD = """\
# GMB preregistration, schema v0.4: fix it before a held-out run is looked at.
# Fields that begin with x_ are extensions of gmb-hf; everything has a default but
# labels.positive_window.horizon_steps and labels.negative_window.safe_gap_steps.
"""
_COLUMN = 44


def template(model: type[BaseModel]) -> str:
    """YAML that loads as `model`; fields without a default hold an example."""
    return _HEAD + "\n".join(_section(model, "")) + "\n"


def _section(model: type[BaseModel], indent: str) -> list[str]:
    lines: list[str] = []
    for name, field in model.model_fields.items():
        inner = section_in(field.annotation)
        if inner is None or field.examples == [()]:  # a list that is best begun empty
            lines.append(_line(f"{indent}{name}: {_value(field)}", field.description))
        elif "tuple" in str(field.annotation):
            lines.append(f"{indent}{name}:" + _comment(f"{indent}{name}:", inner.__doc__))
            item = _section(inner, indent + "    ")
            lines.extend([f"{indent}  - {item[0].strip()}", *item[1:]])
        else:
            lines.append(f"{indent}{name}:" + _comment(f"{indent}{name}:", inner.__doc__))
            lines.extend(_section(inner, indent + "  "))
    return lines


def _line(text: str, description: str | None) -> str:
    return text + _comment(text, description)


def _comment(text: str, description: str | None) -> str:
    gap = " " * max(2, _COLUMN - len(text))
    return f"{gap}# {description}" if description else ""


def _value(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=False)
    if field.is_required() or field.default_factory is not None:
        value = (field.examples or [None])[0]
    return _inline(value)


def _inline(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_inline(item)}" for key, item in value.items()) + "}"
    return dump_yaml(json_like(value)).removesuffix("...\n").strip()
