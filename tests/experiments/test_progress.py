import pytest

from experiments.progress import say, track


def test_track_passes_items_on_and_is_silent_off_a_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert list(track(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
    assert capfd.readouterr() == ("", "")


def test_track_draws_on_stderr_of_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert list(track("abc", "letters")) == ["a", "b", "c"]
    out, err = capfd.readouterr()
    assert out == ""
    assert "letters" in err


def test_messages_go_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    say("hello")
    assert capfd.readouterr() == ("", "hello\n")
