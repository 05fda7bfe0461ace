/**
 * Reads what Temporal itself reports of an execution, which no input can forge.
 *
 * 1. Only what never changes is cached: start time, chain and queue. The end is asked anew until the execution has
 *    ended.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { RunSpec, ServerRef } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { ReadCatalog } from '../catalog/reader.ts';

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
    const firstRunId = raw.workflowExecutionInfo?.firstRunId;
    return {
      startedAt: startTime.getTime(),
      firstRunId: firstRunId === undefined || firstRunId === null || firstRunId === '' ? runId : firstRunId,
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

// Finds another server of a run that has the address of the called one, but not its authority.
//
// Signed consent names a server by its address (`domain/request/digest.ts`); token and headers are obtained by its
// name. If two names of one run share an address, consent to a call of one would be as good for the other, and a
// scheduler could choose.
// 1. The check uses the spec that was signed, this worker's own configuration, and catalogs as they are now (INV-G1).
// 2. If both names have the same authority, either may be meant. A grant that was given later belongs to one name
//    alone.
// 3. Catalogs of servers at other addresses are not asked: a call does not wait for something unrelated to it (INV-G3).

/** The called server as its dispatch describes it. */
export interface Called extends Pick<ServerBinding, 'name' | 'url'> {
  /** True if it is called with a grant that the signed spec does not have. */
  readonly regranted: boolean;
}

/** Returns the other server's name; undefined if there is none. @throws CountersignError if a catalog cannot be read */
export type Namesakes = (spec: RunSpec, called: Called) => Promise<string | undefined>;

interface Placed {
  readonly name: string;
  readonly url: string | undefined;
  readonly authority: string;
}

export function createNamesakes(config: Config, readCatalog: ReadCatalog): Namesakes {
  const configuredAs = (name: string): Config['servers'][string] | undefined =>
    Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  const placed = async (
    { initiator, grants }: RunSpec,
    { name, url: own }: Pick<ServerRef, 'name' | 'url'>,
  ): Promise<Placed> => {
    const configured = configuredAs(name);
    const connection = (await readCatalog({ tenant: initiator.tenant, server: name }))?.connection;
    const url = configured?.url ?? connection?.url ?? own;
    const parts = {
      configured: configured && authorityOf(configured),
      connected: connection?.credentials,
      grant: grants.filter(({ server }) => server === name).map(({ server: _, ...grant }) => grant),
    };
    return { name, url: url && canonicalServerUrl(url), authority: canonicalJson(parts) };
  };
  return async (spec, called) => {
    const others = spec.servers.filter(({ name }) => {
      const url = configuredAs(name)?.url;
      return name !== called.name && (url === undefined || canonicalServerUrl(url) === called.url);
    });
    if (others.length === 0) return undefined;
    const { authority } = await placed(spec, called);
    const its = await Promise.all(others.map(async (other) => await placed(spec, other)));
    return its.find((other) => other.url === called.url && (called.regranted || other.authority !== authority))?.name;
  };
}

/** Returns what tells callers of one server apart: headers and credentials. */
export function authorityOf({ headers, credentials }: Config['servers'][string]): string {
  return canonicalJson({ headers, credentials });
}
