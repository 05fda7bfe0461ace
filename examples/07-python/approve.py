"""Starts a run, checks and approves all that waits, and verifies the ledger.

Usage: python approve.py SPEC.json RUN_ID APPROVER   (TEMPORAL_ADDRESS, by default localhost:7233)
"""

import asyncio
import json
import os
import sys
from datetime import timedelta

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from countersign_hashes import broken_at, request_digest, update_id


async def ask(run: WorkflowHandle, query: str, *bounds: int):
    """Queries a run. A query that is refused with ASK_AGAIN, or is not answered, is asked again."""
    for attempt in range(20):
        try:
            return await run.query(query, args=bounds, rpc_timeout=timedelta(seconds=3))
        except (RPCError, WorkflowQueryFailedError) as error:
            if attempt == 19 or (isinstance(error, WorkflowQueryFailedError) and "ASK_AGAIN" not in str(error)):
                raise
            await asyncio.sleep(0.05 * 2 ** min(attempt, 5))


async def next_request(run: WorkflowHandle, decided: set[str], end: asyncio.Task) -> dict | None:
    """Waits for an open request that is not decided yet. None: the run has ended (see `end`).

    A request is believed only if its digest is of what it shows, and returned only if it asks for consent.
    """
    while not end.done():
        for request in await ask(run, "requests"):
            if request["status"] == "open" and request["digest"] not in decided:
                if request_digest(request) != request["digest"]:
                    sys.exit(f"{request['callId']} is not what its digest says: do not decide it")
                if "about" in request:
                    sys.exit(f"{request['callId']} asks for {request['about']['kind']}: no approval answers that")
                return request
        await asyncio.wait([end], timeout=0.2)
    return None


async def decide(run: WorkflowHandle, request: dict, approver: str) -> dict:
    shown = {name: request[name] for name in ("callId", "digest", "runId")}
    own_id = f"{approver}-{request['callId']}.{request['generation']}"
    decision = {"kind": "approve", "decisionId": own_id, **shown, "approver": {"id": approver, "groups": []}}
    return await run.execute_update("decide", decision, id=update_id("decide", own_id, decision))


async def read_ledger(run: WorkflowHandle) -> tuple[list[dict], str]:
    entries: list[dict] = []
    while True:
        page = await ask(run, "ledger", len(entries), len(entries) + 1000)
        if page["from"] > len(entries):
            sys.exit(f"entries before {page['from']} stand in the artifact store: {page['segment']['sha256']}")
        entries += page["entries"]
        if len(entries) >= page["total"]:
            return entries, page["head"]


async def main(spec_file: str, run_id: str, approver: str) -> None:
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    with open(spec_file, encoding="utf-8") as file:
        spec = json.load(file)
    policies = {
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "id_conflict_policy": WorkflowIDConflictPolicy.FAIL,
    }
    run = await client.start_workflow("agentRun", spec, id=run_id, task_queue="countersign", **policies)
    decided: set[str] = set()
    # Not `describe`: the SDK cannot read the times that a run has taken back when it waits for nobody any more.
    end = asyncio.create_task(run.result())
    while request := await next_request(run, decided, end):
        print(f"{request['callId']} wants {request['server']}/{request['tool']} {json.dumps(request['arguments'])}")
        try:
            answer = await decide(run, request, approver)
        except WorkflowUpdateFailedError as error:
            sys.exit(f"refused: {getattr(error.cause, 'type', '')}: {error.cause}")
        decided.add(request["digest"])
        print(f"{answer['status']} by {answer['decidedBy']} at {answer['decidedAt']}")
    try:
        result = await end
    except WorkflowFailureError as error:
        sys.exit(f"failed: {getattr(error.cause, 'type', '')}: {error.cause}")
    entries, head = await read_ledger(run)
    broken = broken_at(entries)
    if broken is not None or (head, len(entries)) != (result["ledgerHead"], result["ledgerLength"]):
        sys.exit(f"the ledger is not intact: entry {broken}")
    print(f"{result['status']}: {result['output']}")
    print(f"ledger intact: {len(entries)} entries, head {head}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
