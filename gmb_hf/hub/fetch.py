"""Panels fetched from the Hub, a folder or a URL into the user's cache, checked by their hashes.

A panel is fetched by its card, which names every other file with its SHA-256. What comes is kept
whole or not at all, so that `panel:NAME` never finds half of one.
"""

from __future__ import annotations

import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path, PurePosixPath

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, unknown
from gmb_hf.base.files import open_file, whole_folder
from gmb_hf.base.fingerprints import SHOWN
from gmb_hf.base.repositories import Address, pull
from gmb_hf.design.ledger import PANEL_KEY, folder_of_fetched
from gmb_hf.hub.cards import CARD, Card
from gmb_hf.hub.panels import LEDGER, FrozenPanel, names
from gmb_hf.hub.recipes import RECIPES

MOST_CARD, MOST_FILE = 2**22, 2**28
"""Bytes of a card or a ledger, and of any other file of a panel, that are fetched."""
_SECONDS = 30  # in which a server sends something
_NAME = re.compile(r"\w[\w.-]*")
Get = Callable[[str, int], bytes | None]
"""The bytes of a file of a panel within a limit; None where there is no such file."""


def fetch(name: str, source: str | None = None, *, content_hash: str | None = None) -> FrozenPanel:
    """Fetch a panel into $GMB_PANELS or the user's cache, where `panel:NAME` finds it.

    Args:
        name: of the panel.
        source: `hf://datasets/ORG/NAME@REV` as `gmb panel push` makes it, a folder that is the
            panel or holds it by its name, or the URL of its card (README.md), beside which its
            files lie. None: it must be here already.
        content_hash: that it must have; by default that of the published panel of this name, where
            there is one.

    Returns:
        The panel in the cache. One that is there already is left as it is.

    Raises:
        InputError: no such panel there, the source cannot be read, a file is too large or is not
            what the card says, the panel is another one, or the cache holds another one.
    """
    if source is None:
        return _whole(FrozenPanel.find(name))
    if not _NAME.fullmatch(name):
        raise unknown("panel", name, names())
    known = RECIPES.get(name)
    wanted = content_hash or (known.published if known else "")
    place = folder_of_fetched() / name
    get, where = _reader(name, source)
    before = FrozenPanel(name, Card.read(place)) if (place / CARD).is_file() else None
    with whole_folder(place) as workshop:
        panel = _brought(name, get, where, workshop)
        found = panel.entry.content_hash
        if wanted and found != wanted:
            said = "--hash says" if content_hash else "the published panel has"
            hint = "" if content_hash else f"; for this one say --hash {found}"
            raise InputError(
                f"{where}: is another panel {name!r}: its content hash is {found[:SHOWN]}, {said} "
                f"{wanted[:SHOWN]}{hint}"
            )
        if before is not None and before.entry.content_hash != found:
            raise InputError(
                f"{place}: holds another panel of this name (content hash "
                f"{before.entry.shown}, that of {where} is {found[:SHOWN]}); remove this folder "
                "to fetch it"
            )
        faults = [fault.replace(str(workshop), where) for fault in panel.faults()]
        if faults:
            raise InputError(f"{faults[0]}; fetch it again, or from elsewhere")
    return FrozenPanel(name, Card.read(place))


def _whole(panel: FrozenPanel) -> FrozenPanel:
    """The panel, if it is no copy with fewer columns."""
    if panel.said_of_cut:
        raise InputError(
            f"panel {panel.name!r}: the package ships {panel.said_of_cut}; say where the whole one "
            f"is: gmb panel fetch {panel.name} --from hf://datasets/ORG/NAME, a folder, or the URL "
            f"of its {CARD}"
        )
    return panel


def _brought(name: str, get: Get, where: str, workshop: Path) -> FrozenPanel:
    """Bring the files of a panel into a folder; each is what its card says, byte by byte."""
    text = get(CARD, MOST_CARD)
    if text is None:
        raise InputError(f"{where}: holds no panel {name!r}: there is no {CARD}")
    (workshop / CARD).write_bytes(text)
    card = Card.read(workshop)
    card = replace(card, where=f"{where}/{CARD}")
    if PANEL_KEY not in card.header:
        raise InputError(f"{card.where}: is no card of a panel, it has no {PANEL_KEY}")
    panel = FrozenPanel(name, card)
    for file, said in panel.record.files.items():
        if file != PurePosixPath(file).name or file in (CARD, LEDGER) or not _NAME.fullmatch(file):
            raise InputError(f"{card.where}: names {file!r}, which is no file of a panel")
        content = get(file, MOST_FILE)
        if content is None:
            raise InputError(f"{where}/{file}: is missing, the card of the panel names it")
        found = hashlib.sha256(content).hexdigest()
        if found != said:
            raise InputError(
                f"{where}/{file}: is not what the card says (SHA-256 {found[:SHOWN]}, the card "
                f"says {said[:SHOWN]}); fetch it again, or from elsewhere"
            )
        (workshop / file).write_bytes(content)
    ledger = get(LEDGER, MOST_CARD)
    if ledger is not None:
        (workshop / LEDGER).write_bytes(ledger)
    return panel


def _reader(name: str, source: str) -> tuple[Get, str]:
    """What reads the files of a panel, and what messages call the place where they are."""
    if re.match(r"https?://", source):
        base = source.removesuffix(CARD).rstrip("/")
        return lambda file, most: _downloaded(f"{base}/{file}", most), base
    if source.startswith("hf://"):
        address = Address.parse(source, option="--from")
        # The root holds the card that says which panels there are.
        root, where = pull(address, [CARD, f"{name}/*"]), str(address)
    else:
        root, where = Path(source), source.rstrip("/")
        if not root.is_dir():
            raise InputError(
                f"--from {source}: is no folder here; name a folder, hf://datasets/ORG/NAME@REV, "
                f"or the URL of a panel's {CARD} (http:// or https://)"
            )
    if (root / name / CARD).is_file():
        folder, where = root / name, f"{where}/{name}"
    else:
        folder = root
        others = _panels_in(root)
        if others:
            raise unknown("panel", name, others, where=where)
    return lambda file, most: _read(folder / file, most), where


def _panels_in(folder: Path) -> list[str]:
    """The panels of which a folder holds several, or of which the card of a dataset tells."""
    card = folder / CARD
    if not card.is_file():
        return sorted(path.parent.name for path in folder.glob(f"*/{CARD}"))
    told = Card.read(folder).header.get(PANEL_KEY)
    return sorted(map(str, told)) if isinstance(told, dict) and "files" not in told else []


def _read(path: Path, most: int) -> bytes | None:
    if not path.exists():
        return None
    with open_file(path, most=most) as file:
        return file.read()


def _downloaded(url: str, most: int) -> bytes | None:
    """The bytes of a file of a server; None where it says that there is none."""
    request = urllib.request.Request(url, headers={"User-Agent": f"gmb-hf/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            content: bytes = answer.read(most + 1)
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return None
        raise InputError(f"{url}: the server refused (status {error.code})") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        again = "run the same command again when it can"
        raise InputError(f"{url}: cannot be reached: {reason}; {again}") from error
    if len(content) > most:
        raise InputError(f"{url}: is larger than {most >> 20:,} MB, the most that is fetched")
    return content
