"""The fuzzer of model files; tests/estimators/test_saving_fuzz.py runs most of it."""

import torture.files


def test_what_damage_may_not_do_is_found(tmp_path, monkeypatch):
    assert not torture.files.run(0).failures
    monkeypatch.setattr(torture.files.pursuit, "load", lambda path: exec("1"))
    assert any("has run" in sentence for sentence in torture.files.run(0).failures)
