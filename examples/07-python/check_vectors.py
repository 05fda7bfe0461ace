"""Checks countersign_hashes.py against docs/vectors. Usage: python check_vectors.py ../../docs/vectors"""

import json
import sys
from pathlib import Path

from countersign_hashes import GENESIS, broken_at, canonical, definition_hash, request_digest, sha256

folder = Path(sys.argv[1])


def read(name: str) -> dict:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


checked = 0


def check(what: str, found, wanted) -> None:
    global checked
    checked += 1
    if found != wanted:
        sys.exit(f"{what}: {found!r}, and {wanted!r} was wanted")


for vector in read("request-digest")["vectors"]:
    check(vector["name"], request_digest(vector["request"]), vector["digest"])
    check(vector["name"], canonical(json.loads(vector["canonical"])), vector["canonical"])

for vector in read("definition-hash")["vectors"]:
    check(vector["name"], definition_hash(vector["definition"]), vector["hash"])

ledger = read("ledger-chain")
entries = [vector["entry"] for vector in ledger["entries"]]
check("the chain", broken_at(entries), None)
check("its beginning", entries[0]["prev"], GENESIS)
check("its end", entries[-1]["hash"], ledger["head"])
for broken in ledger["broken"]:
    check(broken["name"], broken_at(broken["entries"]), broken["at"])

conversation = read("conversation-digest")
digest = conversation["empty"]
for vector in conversation["vectors"]:
    digest = sha256(digest + canonical(vector["message"]))
    check("the conversation", digest, vector["digest"])

print(f"{checked} checks of {folder.name}: all as they should be")
