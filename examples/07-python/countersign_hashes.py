"""Hashes of Countersign, by docs/guide/hashes.md alone. Needs only the standard library."""

import hashlib
import json
import re
from decimal import Decimal

GENESIS = "0" * 64
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def canonical(value) -> str:
    """Returns canonical JSON (RFC 8785). The order of names is by UTF-16 units, which big-endian bytes keep."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return f"{{{','.join(f'{canonical(name)}:{canonical(value[name])}' for name in names)}}}"


def number(value) -> str:
    """Writes a number as ECMAScript does (ECMA-262, Number::toString)."""
    if isinstance(value, int) or value == 0:
        return str(int(value))
    sign, parts, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits, minus = "".join(map(str, parts)), "-" if sign else ""
    point = len(digits) + exponent
    if len(digits) <= point <= 21:
        return minus + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1:+d}"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def request_digest(request: dict) -> str:
    """Returns the digest of what a request shows. It must be the request's own `digest`."""
    parts = {name: request[name] for name in ("namespace", "tenant", "workflowId", "callId", "arguments", "approvers")}
    parts["nonce"] = f"{request['runId']}/{request['generation']}"
    parts |= {"server": request["serverUrl"], "tool": request["tool"], "definition": request["definitionHash"]}
    parts |= {name: request[name] for name in ("about", "hosted") if name in request}
    return sha256(canonical(parts))


def definition_hash(definition: dict) -> str:
    counted = {name: part for name, part in definition.items() if name != "taskSupport" or part == "required"}
    return sha256(canonical(counted))


def broken_at(entries: list[dict], first: int = 0, previous: str = GENESIS) -> int | None:
    """Returns the number of the first entry that breaks the chain, or None."""
    for seq, entry in enumerate(entries, first):
        body = {name: part for name, part in entry.items() if name != "hash"}
        if entry["seq"] != seq or entry["prev"] != previous or sha256(canonical(body)) != entry["hash"]:
            return seq
        previous = entry["hash"]
    return None


def update_id(update: str, own_id: str, message: dict) -> str:
    return f"{update}/{own_id}/{sha256(canonical(message))[:16]}"
