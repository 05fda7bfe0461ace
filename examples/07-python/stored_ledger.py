"""Reads entries of a run from before it continued as new, through the gateway. Needs only the standard library.

GATEWAY_URL names the gateway, GATEWAY_TOKEN is of somebody who may see the run.
"""

import json
import os
import sys
from http.client import HTTPException
from urllib.parse import quote
from urllib.request import Request, urlopen


def read_stored(run_id: str, first: int, end: int) -> list[dict]:
    """Reads the entries from `first` up to `end`. Nothing is believed of them: the chain has to hold."""
    entries: list[dict] = []
    while (at := first + len(entries)) < end:
        gateway, token = os.environ.get("GATEWAY_URL"), os.environ.get("GATEWAY_TOKEN")
        if not gateway or not token:
            sys.exit(f"entries before {end} are in the artifact store: set GATEWAY_URL and GATEWAY_TOKEN to read them")
        url = f"{gateway}/v1/runs/{quote(run_id, safe='')}/ledger?from={at}&most={min(1000, end - at)}"
        try:
            with urlopen(Request(url, headers={"authorization": f"Bearer {token}"}), timeout=60) as answer:
                told = json.load(answer)["entries"]
        except (HTTPException, OSError, ValueError, KeyError) as error:
            sys.exit(f"the gateway does not give entry {at}: {error}")
        if not told:
            sys.exit(f"the gateway has no entry {at}")
        entries += told
    return entries
