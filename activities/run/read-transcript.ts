/**
 * Reads a stretch of a run's conversation: by query what the living execution holds, and from stored segments what is
 * closed. Queries go to one Temporal run id: a run that has continued as new does not answer in its place.
 */
import type { Client, WorkflowHandle } from '@temporalio/client';
import { CountersignError } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { Segment } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { TranscriptPage } from '../../contracts/schemas/run-state.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { ArtifactStore } from '../artifacts/port.ts';

/** Returns the beginning of the range, never empty: what is stored of it, else a page by query of that run. */
export type ReadTranscript = (
  workflowId: string,
  runId: string,
  from: number,
  to: number,
  segment?: ArtifactRef,
) => Promise<readonly Message[]>;

export function createTranscriptReader(artifacts: ArtifactStore, client: Pick<Client, 'workflow'>): ReadTranscript {
  return async (workflowId, runId, from, to, segment) => {
    const stored = await storedFrom(artifacts, from, segment);
    if (stored.length > 0) return stored.slice(0, to - from);
    return (await pageOf(client.workflow.getHandle(workflowId, runId), from, to)).messages;
  };
}

/** Reads back from the newest segment, and each segment once, however long the chain is. */
async function storedFrom(
  artifacts: ArtifactStore,
  from: number,
  newest: ArtifactRef | undefined,
): Promise<readonly Message[]> {
  const newestFirst: Message[][] = [];
  for (let ref = newest; ref !== undefined;) {
    const { transcript, previous }: Segment = await readSegment(artifacts, ref);
    newestFirst.push(transcript.messages.slice(Math.max(0, from - transcript.from)));
    if (transcript.from <= from) return newestFirst.toReversed().flat();
    ref = previous;
  }
  if (newest === undefined) return [];
  const message = `The stored segments of the run do not reach back to message ${from}.`;
  throw new CountersignError('ARTIFACT_CORRUPT', message);
}

export async function pageOf(run: Pick<WorkflowHandle, 'query'>, from: number, to: number): Promise<TranscriptPage> {
  return await run.query<TranscriptPage, [number, number]>(QUERIES.transcript, from, to);
}

export type ReadMessage = (workflowId: string, runId: string, at: number) => Promise<Message | undefined>;

/** Reads one message as the run itself has it. */
export function createMessageReader(client: Pick<Client, 'workflow'>, readTranscript: ReadTranscript): ReadMessage {
  return async (workflowId, runId, at) => {
    const page = await pageOf(client.workflow.getHandle(workflowId, runId), at, at + 1);
    const isStored = at < page.from && page.segment !== undefined;
    const [message] = isStored ? await readTranscript(workflowId, runId, at, at + 1, page.segment) : page.messages;
    return message;
  };
}

export async function readSegment(artifacts: Pick<ArtifactStore, 'get'>, ref: ArtifactRef): Promise<Segment> {
  const value: unknown = JSON.parse(new TextDecoder().decode(await artifacts.get(ref)));
  return parseAs(Segment, value, 'ARTIFACT_CORRUPT', 'stored segment');
}
