/**
 * Finds the artifacts that a namespace needs: every hash in any payload of the retained histories of runs and catalogs.
 *
 * 1. It finds too many rather than too few: references and other digests look alike, since both are 64 hexadecimal
 *    digits.
 * 2. It reads all or fails. An artifact named only in an unreadable history would otherwise be taken for one that
 *    nobody needs.
 */
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { decode } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { ifThere, listExecutions } from '../engine/executions.ts';

const HASH = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g;
/** Encodings that a data converter writes in clear; any other encoding is still encrypted. */
const CLEAR = new Set(['json/plain', 'json/protobuf', 'binary/plain', 'binary/protobuf', 'binary/null']);

export function hashesIn(bytes: Uint8Array): readonly string[] {
  // A hash is ASCII, so the bytes are read one by one, whatever stands around it.
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').match(HASH) ?? [];
}

/** @param onHistory called after each history with the number read so far */
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
  // There is none if the retention of this execution has ended since it was listed.
  const history = await ifThere(async () => await client.workflow.getHandle(workflowId, runId).fetchHistory());
  const payloads = [...payloadsIn(history)];
  const decoded = await decode([...client.options.loadedDataConverter.payloadCodecs], payloads);
  return decoded.flatMap((payload) => {
    const encoding = new TextDecoder().decode(payload.metadata?.['encoding'] ?? undefined);
    if (!CLEAR.has(encoding)) {
      const message = `The history of ${workflowId} cannot be read: it is encrypted, and encryption.keys does not have its key. Nothing was removed.`;
      throw new CountersignError('CONFIG_INVALID', message, { path: 'encryption.keys', runId: workflowId });
    }
    const { data } = payload;
    // No `instanceof`: bytes may be of another kind, and an artifact whose reference is overlooked is removed. An empty
    // payload holds an empty list instead of bytes.
    return data === undefined || data === null || data.length === 0 ? [] : hashesIn(data);
  });
}

function* payloadsIn(value: unknown): Generator<Payload> {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return;
  // Sound: of all messages of a history, payloads alone have both.
  if ('metadata' in value && 'data' in value) yield value as Payload;
  else for (const inner of Object.values(value)) yield* payloadsIn(inner);
}
