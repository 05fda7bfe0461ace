/** A client in Python that makes calls as tasks (MCP 2025-11-25): the SDK that knows them, in one process for each word. */
import { join } from 'node:path';
import { ensureVenv } from '../../../scripts/python-venv.mjs';
import { type Arguments, type Calling, KEY, PACKAGES, running } from './clients.ts';
import type { ForeignWorld } from './world.ts';

const PROGRAM = `
import asyncio, json, os, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CallToolResult

async def main(verb, *rest):
    headers = {"Authorization": f"Bearer {os.environ['COUNTERSIGN_KEY']}"}
    async with streamablehttp_client(os.environ["COUNTERSIGN_URL"], headers=headers) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tasks = session.experimental
            if verb == "begin":
                begun = await tasks.call_tool_as_task(rest[0], json.loads(rest[1]))
                print(begun.task.status, begun.task.taskId)
            elif verb == "cancel":
                print((await tasks.cancel_task(rest[0])).status)
            elif verb == "list":
                print(" ".join(task.taskId for task in (await tasks.list_tasks()).tasks))
            else:
                async for task in tasks.poll_task(rest[0]):
                    print(task.status, task.statusMessage, flush=True)
                result = await tasks.get_task_result(rest[0], CallToolResult)
                print(result.isError, result.content[0].text)

asyncio.run(main(*sys.argv[1:]))
`;

export interface TaskClient {
  begin(scene: ForeignWorld, tool: string, args: Arguments): Calling;
  /** Says how the task goes on until it has ended, and then its result. */
  follow(scene: ForeignWorld, taskId: string): Calling;
  cancel(scene: ForeignWorld, taskId: string): Calling;
  list(scene: ForeignWorld): Calling;
}

export async function pythonTasks(): Promise<TaskClient> {
  // The version of the SDK that these adapters use is the last one that knows the tasks of 2025-11-25.
  const python = await ensureVenv('python-langchain', join(PACKAGES, 'python-langchain.txt'));
  const run = ({ gateways }: ForeignWorld, ...words: readonly string[]): Calling =>
    running(python, Promise.resolve(['-', ...words]), {
      env: { COUNTERSIGN_URL: `${gateways.short.url}/mcp`, COUNTERSIGN_KEY: KEY },
      input: PROGRAM,
    });
  return {
    begin: (scene, tool, args) => run(scene, 'begin', `bank__${tool}`, JSON.stringify(args)),
    follow: (scene, taskId) => run(scene, 'follow', taskId),
    cancel: (scene, taskId) => run(scene, 'cancel', taskId),
    list: (scene) => run(scene, 'list'),
  };
}
