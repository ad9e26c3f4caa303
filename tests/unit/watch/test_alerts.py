"""Notices reach a command and an address of this machine's network, and nothing further away."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from dynalyze.text.errors import UsageError
from dynalyze.watch.alerts import Alerts
from dynalyze.watch.records import Notice

NOTICE = Notice("recompile", "`n` changed from 1 to 2", 3.0, 40, [1])


class Server(http.server.BaseHTTPRequestHandler):
    bodies: ClassVar[list[bytes]] = []
    redirect = ""

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(302 if self.redirect else 200)
        if self.redirect:
            self.send_header("Location", self.redirect)
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Server.bodies, Server.redirect = [], ""
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}/told"
    httpd.shutdown()
    httpd.server_close()


def test_a_command_gets_the_notice_and_its_line_as_json(tmp_path: Path) -> None:
    alerts = Alerts(f"cat > {tmp_path}/told")
    alerts.send(NOTICE, "rank 1, step 40: recompiled")
    alerts.close()
    told = json.loads((tmp_path / "told").read_text())
    assert (told["line"], told["step"], told["ranks"], told["kind"]) == (
        "rank 1, step 40: recompiled",
        40,
        [1],
        "recompile",
    )


def test_an_address_of_this_machine_gets_a_post(server: str) -> None:
    alerts = Alerts(url=server)
    alerts.send(NOTICE, "a line")
    alerts.close()
    assert [json.loads(body)["line"] for body in Server.bodies] == ["a line"]


def test_a_redirect_is_not_followed(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    Server.redirect = server + "/elsewhere"
    alerts = Alerts(url=server)
    alerts.send(NOTICE, "a line")
    alerts.close()
    assert len(Server.bodies) == 1
    assert "the alert failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://8.8.8.8/x", "https://[2001:4860:4860::8888]/", "ftp://127.0.0.1/", "127.0.0.1:80"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--alert-url"):
        Alerts(url=url)


def test_a_command_that_fails_is_said_once_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    alerts = Alerts("exit 3")
    for _ in range(3):
        alerts.send(NOTICE, "a line")
    alerts.close()
    assert capsys.readouterr().err.count("the alert failed") == 1
