"""Every SQL statement, fsync, rename, unlink and opening of a run fails, each in turn."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from fault_corpus import Documents, check_answers, stored_texts
from fault_jobs import Job, perform
from index_state import check_clean, content, is_one_line_with_a_command
from python_faults import Calls, failing

from ragla.errors import RaglaError


@pytest.mark.parametrize("verb", ["update", "rebuild"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_each_call_fails_once(tmp_path: Path, number: int, verb: str) -> None:
    documents = Documents(tmp_path / "docs", seed=31)
    documents.fill(4)
    before, index_dir, twin = tmp_path / "before", tmp_path / "index", tmp_path / "twin"
    perform(Job(documents.folder, before))
    old = stored_texts(before)
    documents.change_some()
    shutil.copytree(before, twin)
    with failing(Calls(twin)) as clean:
        perform(Job(documents.folder, twin, verb, 2))
    after = content(twin)
    assert {"BEGIN", "COMMIT", "INSERT", "fsync", "replace", "open"} <= set(clean.names)
    common = [at for at, name in enumerate(clean.names, 1) if name in ("SELECT", "INSERT", "DELETE")]
    for call in sorted({*range(1, len(clean.names) + 1)} - set(common) | set(common[::7])):
        shutil.copytree(before, index_dir)
        try:
            with failing(Calls(index_dir, call, number)):
                perform(Job(documents.folder, index_dir, verb, 2))
        except RaglaError as error:
            told = (type(error).__name__, str(error), error.hint)
            assert is_one_line_with_a_command(told), f"{clean.names[call - 1]} {call}: {told}"
        texts = stored_texts(index_dir)
        for path in old:
            now = documents.versions[path][-1] if path in documents.here else None
            assert texts.get(path, now) in (old[path], now)
        check_answers(documents, index_dir)
        perform(Job(documents.folder, index_dir, batch_files=2))
        assert content(index_dir) == after, f"{clean.names[call - 1]} {call}"
        check_clean(index_dir)
        shutil.rmtree(index_dir)
