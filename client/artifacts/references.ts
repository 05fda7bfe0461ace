/**
 * Which artifacts a namespace needs: whatever looks like a hash in any payload of any history of ours that Temporal retains.
 *
 * 1. Too many rather than too few: a reference is not told from a digest, since both are 64 hexadecimal digits.
 * 2. All or nothing: a history or a payload that cannot be read fails the whole, for an artifact that it names would be taken for
 *    one that nobody needs.
 */
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { decode } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { listExecutions } from '../engine/executions.ts';

const HASH = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g;
/** What a data converter writes in clear; anything else is still encrypted. */
const CLEAR = new Set(['json/plain', 'json/protobuf', 'binary/plain', 'binary/protobuf', 'binary/null']);
/** gRPC. */
const NOT_FOUND = 5;

export function hashesIn(bytes: Uint8Array): readonly string[] {
  // Byte by byte: a hash is ASCII, whatever stands around it.
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').match(HASH) ?? [];
}

/** @param onHistory told after each one */
export async function referencedArtifacts(
  client: Client,
  onHistory: (read: number) => void = () => undefined,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const query = `WorkflowType IN ('${RUN_WORKFLOW}', '${CATALOG_WORKFLOW}')`;
  let read = 0;
  for await (const { workflowId, runId } of listExecutions(client, query)) {
    for (const hash of await hashesOf(client, workflowId, runId)) found.add(hash);
    read += 1;
    onHistory(read);
  }
  return found;
}

async function hashesOf(client: Client, workflowId: string, runId: string): Promise<readonly string[]> {
  let history: unknown;
  try {
    history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  } catch (error) {
    // Its retention has ended since it was listed.
    if (isNotFound(error)) return [];
    throw error;
  }
  const payloads = [...payloadsIn(history)];
  const decoded = await decode([...client.options.loadedDataConverter.payloadCodecs], payloads);
  return decoded.flatMap((payload) => {
    const encoding = new TextDecoder().decode(payload.metadata?.['encoding'] ?? undefined);
    if (!CLEAR.has(encoding))
      throw new CountersignError(
        'CONFIG_INVALID',
        `The history of ${workflowId} cannot be read: it is encrypted, and encryption.keys does not have its key. Nothing was removed.`,
        { path: 'encryption.keys', runId: workflowId },
      );
    const { data } = payload;
    // Where nothing was sent it is no bytes at all, but an empty list. Not by instanceof: what is not looked into is not kept.
    return data === undefined || data === null || data.length === 0 ? [] : hashesIn(data);
  });
}

/** Wherever they stand in the events. */
function* payloadsIn(value: unknown): Generator<Payload> {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return;
  // Sound: of all messages of a history, payloads alone have both.
  if ('metadata' in value && 'data' in value) yield value as Payload;
  else for (const inner of Object.values(value)) yield* payloadsIn(inner);
}

export function isNotFound(error: unknown): boolean {
  for (let at = error; at !== null && typeof at === 'object'; at = 'cause' in at ? at.cause : undefined)
    if (('code' in at && at.code === NOT_FOUND) || ('name' in at && at.name === 'WorkflowNotFoundError')) return true;
  return false;
}
