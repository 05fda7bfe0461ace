/**
 * Reads what Temporal itself reports of an execution, which no input can forge.
 *
 * 1. Only what never changes is cached: start time, chain and queue. The end is asked anew until the execution has
 *    ended.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';

export interface ExecutionFacts {
  /** Epoch ms. */
  readonly startedAt: number;
  /** First Temporal run id of the chain that continue-as-new makes. */
  readonly firstRunId: string;
  readonly taskQueue: string;
  /** True if it ended by continuing as new; an execution that was reset did not. */
  readonly continued: boolean;
}

/** Returns undefined if Temporal no longer knows it (retention). @throws CountersignError `ENGINE_UNAVAILABLE` */
export type ReadExecution = (
  workflowId: string,
  runId: string,
  state: 'living' | 'past',
) => Promise<ExecutionFacts | undefined>;

const DEADLINE_MS = 10_000;
const MOST_KEPT = 5_000;

export function createExecutionReader(client: Client): ReadExecution {
  const kept = new LRUCache<string, ExecutionFacts>({ max: MOST_KEPT });
  return async (workflowId, runId, state) => {
    const key = `${runId} ${workflowId}`;
    const known = kept.get(key);
    if (known !== undefined && (state === 'living' || known.continued)) return known;
    const facts = await describe(client, workflowId, runId);
    if (facts !== undefined) kept.set(key, facts);
    return facts;
  };
}

async function describe(client: Client, workflowId: string, runId: string): Promise<ExecutionFacts | undefined> {
  try {
    const { startTime, status, taskQueue, raw } = await client.connection.withDeadline(
      Date.now() + DEADLINE_MS,
      async () => await client.workflow.getHandle(workflowId, runId).describe(),
    );
    return {
      startedAt: startTime.getTime(),
      firstRunId: raw.workflowExecutionInfo?.firstRunId || runId,
      taskQueue,
      continued: status.name === 'CONTINUED_AS_NEW',
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw new CountersignError(
      'ENGINE_UNAVAILABLE',
      'Temporal does not say when the run began, so nothing is sent for it. It is tried again.',
      {},
      { cause: error },
    );
  }
}

export async function isOfChain(
  readExecution: ReadExecution,
  workflowId: string,
  runId: string,
  earlier: string,
): Promise<boolean> {
  const own = await readExecution(workflowId, runId, 'living');
  const made = await readExecution(workflowId, earlier, 'past');
  return made?.continued === true && made.firstRunId === own?.firstRunId;
}

export interface Called extends Pick<ServerBinding, 'name' | 'url'> {
  /** True if it is called with a grant that the signed spec does not have. */
  readonly regranted: boolean;
}

/** Returns the other server's name, if there is one. @throws CountersignError if a catalog cannot be read */
export type Namesakes = (spec: RunSpec, called: Called) => Promise<string | undefined>;
