"""Starts a run, checks and approves all that waits, and verifies the ledger.

Usage: python approve.py SPEC.json RUN_ID APPROVER   (TEMPORAL_ADDRESS, by default localhost:7233)
"""

import asyncio
import atexit
import json
import os
import sys
import time
from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from countersign_hashes import broken_at, request_digest, update_id
from stored_ledger import read_stored


async def ask(run: WorkflowHandle, query: str, *bounds: int):
    """Queries a run. A query that is refused with ASK_AGAIN, or is not answered, is asked again."""
    for attempt in range(20):
        try:
            return await run.query(query, args=bounds, rpc_timeout=timedelta(seconds=3))
        except (RPCError, WorkflowQueryFailedError) as error:
            if attempt == 19 or (isinstance(error, WorkflowQueryFailedError) and "ASK_AGAIN" not in str(error)):
                raise
            await asyncio.sleep(0.05 * 2 ** min(attempt, 5))


async def is_running(client: Client, run_id: str) -> bool:
    # Not `run.describe()`: it cannot read the times that a run has taken back when it waits for nobody any more.
    question = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution={"workflow_id": run_id})
    answer = await client.workflow_service.describe_workflow_execution(question)
    return answer.workflow_execution_info.status == WorkflowExecutionStatus.RUNNING


async def next_request(client: Client, run: WorkflowHandle, decided: set[str]) -> dict | None:
    """Waits for an open request that is not decided yet. None: the run has ended.

    A request is believed only if its digest is of what it shows, and returned only if it asks for consent.
    """
    while await is_running(client, run.id):
        for request in await ask(run, "requests"):
            if request["status"] == "open" and request["digest"] not in decided:
                if request_digest(request) != request["digest"]:
                    sys.exit(f"{request['callId']} is not what its digest says: do not decide it")
                if "about" in request:
                    sys.exit(f"{request['callId']} asks for {request['about']['kind']}: no approval answers that")
                return request
        await asyncio.sleep(0.2)
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
        entries += read_stored(run.id, len(entries), page["from"]) + page["entries"]
        if len(entries) >= page["total"]:
            return entries, page["head"]


async def main(spec_file: str, run_id: str, approver: str) -> None:
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    with open(spec_file, encoding="utf-8") as file:
        spec = json.load(file)
    reuse, conflict = WorkflowIDReusePolicy.REJECT_DUPLICATE, WorkflowIDConflictPolicy.FAIL
    run = await client.start_workflow(
        "agentRun", spec, id=run_id, task_queue="countersign", id_reuse_policy=reuse, id_conflict_policy=conflict
    )
    decided: set[str] = set()
    try:
        while request := await next_request(client, run, decided):
            print(f"{request['callId']} wants {request['server']}/{request['tool']} {json.dumps(request['arguments'])}")
            answer = await decide(run, request, approver)
            decided.add(request["digest"])
            print(f"{answer['status']} by {answer['decidedBy']} at {answer['decidedAt']}")
        result = await run.result()
    except (WorkflowUpdateFailedError, WorkflowFailureError) as error:
        sys.exit(f"{getattr(error.cause, 'type', '')}: {error.cause}")
    entries, head = await read_ledger(run)
    broken = broken_at(entries)
    if broken is not None or entries[-1]["hash"] != head or head != result["ledgerHead"]:
        sys.exit(f"the ledger is not intact: entry {broken}")
    print(f"{result['status']}: {result['output']}")
    print(f"ledger intact: {len(entries)} entries, head {head}")


if __name__ == "__main__":
    # The SDK's threads end first: if one still works while Python ends, the process aborts (temporalio/sdk-python#300).
    atexit.register(time.sleep, 0.2)
    asyncio.run(main(*sys.argv[1:]))
