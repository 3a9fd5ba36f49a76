"""A lock on the Hub before evaluation: the order of commits there shows what came first.

locks/HASH/lock.yaml     the lock
locks/HASH/looks.yaml    the looks at held-out runs by it, each committed before a result is seen
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from gmb_hf.base.documents import dump_yaml, load_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.base.repositories import Address, Pushed, publish, pull
from gmb_hf.benchmark.evaluate import Evaluation
from gmb_hf.benchmark.sections import PublishedRecord
from gmb_hf.design.lock import Lock
from gmb_hf.design.looks import LooksFile, Publication


def publish_lock(path: str | Path, repo_id: str, *, private: bool = False) -> Pushed:
    """Commit a lock to a dataset repository, which is made where it is not there yet.

    The commit is noted beside the lock, where `gmb evaluate` finds it. `path` is the lock's file,
    `repo_id` is ORG/NAME; `private` is of a new repository.

    Raises:
        InputError: it is no lock, it is published already, or the Hub refuses.
    """
    lock = Lock.read(path)
    if (known := LooksFile.beside(lock).publication(lock)) is not None:
        what = f"is published already, to {known.repo} at {known.commit}"
        raise InputError.at(path, "published_already", f"{what}; evaluate by it")
    files: dict[str, Path | bytes] = {f"{_folder(lock)}/lock.yaml": Path(path)}
    message = f"Lock {lock.hash[:16]}"
    done = publish(files, repo_id, "dataset", message=message, private=private)
    held = LooksFile.beside(lock)
    note = Publication(
        lock_hash=lock.hash, repo=repo_id, commit=done.commit, after_looks=len(held.by(lock))
    )
    held.model_copy(update={"published": (*held.published, note)}).write(lock)
    return done


def with_publication(evaluation: Evaluation) -> Evaluation:
    """The evaluation with the commits of its lock and of this look, where the lock is published.

    The look is committed now; call it before anybody sees a result.

    Raises:
        InputError: the Hub does not hold this lock, knows of looks that are not kept here, or
            cannot be reached.
    """
    lock = evaluation.lock
    known = None if lock is None else LooksFile.beside(lock).publication(lock)
    if lock is None or known is None:
        return evaluation
    place = f"{_folder(lock)}/lock.yaml"
    there = pull(Address(known.repo, known.commit), [place]) / place
    if not there.is_file() or Lock.read(there).hash != lock.hash:
        what = f"does not hold lock {lock.hash[:16]} at {known.commit}"
        raise InputError(f"{known.repo}: {what}; publish it with gmb lock --publish")
    commit = _commit_looks(lock, known, evaluation.results.summary.x_look or 1)
    record = PublishedRecord(
        repo=known.repo,
        lock_commit=known.commit,
        look_commit=commit,
        before_evaluation=known.after_looks == 0,
    )
    results = evaluation.results.model_copy(update={"x_published": record}).with_checksums()
    return dataclasses.replace(evaluation, results=results)


def _commit_looks(lock: Lock, known: Publication, number: int) -> str:
    """The commit of a look, which is made where it is not there yet."""
    held = LooksFile.beside(lock)
    own = {item.look: item for item in held.by(lock)}
    if own[number].commit is not None:
        return str(own[number].commit)
    place = f"{_folder(lock)}/looks.yaml"
    there = pull(Address(known.repo), [place]) / place
    looks = LooksFile.parse(load_yaml(there), where=known.repo).looks if there.is_file() else ()
    bare = {item.look: item.model_copy(update={"commit": None}) for item in held.by(lock)}
    strange = [item for item in looks if item != bare.get(item.look)]
    if strange:
        raise InputError(
            f"{known.repo}: knows look {strange[0].look} of {strange[0].date} by this lock, which "
            "is not kept here; restore the .looks.yaml beside the lock"
        )
    shown = LooksFile(looks=tuple(bare.values()))
    content: dict[str, Path | bytes] = {place: dump_yaml(shown.as_read()).encode("utf-8")}
    message = f"Look {number} by lock {lock.hash[:16]}"
    commit = publish(content, known.repo, "dataset", message=message).commit
    done = own[number].model_copy(update={"commit": commit})
    looks = tuple(done if item == own[number] else item for item in held.looks)
    held.model_copy(update={"looks": looks}).write(lock)
    return commit


def _folder(lock: Lock) -> str:
    return f"locks/{lock.hash}"
