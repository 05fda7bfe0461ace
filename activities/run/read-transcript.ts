/**
 * Reads a stretch of a run's conversation: by query what the living execution holds, and from stored segments what is
 * closed. Queries go to one Temporal run id: a run that has continued as new does not answer in its place.
 */
import type { Client, WorkflowHandle } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import { CountersignError } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { Segment } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { TranscriptPage } from '../../contracts/schemas/run-state.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { ArtifactStore } from '../artifacts/port.ts';

/** Returns a page of the range, never empty, by query of that run and from its stored segments. */
export type ReadTranscript = (
  workflowId: string,
  runId: string,
  from: number,
  to: number,
  segment?: ArtifactRef,
) => Promise<readonly Message[]>;

/** Place of a stored segment in its chain: small, and never stale, since a reference is a hash. */
interface Outline {
  readonly from: number;
  readonly to: number;
  readonly previous: ArtifactRef | undefined;
}

/** Outlines of segments kept at once; a run of 10,000 turns has some hundreds. */
const MOST_OUTLINES = 20_000;

export function createTranscriptReader(artifacts: ArtifactStore, client: Pick<Client, 'workflow'>): ReadTranscript {
  // Without outlines, reading a long chain page by page would read every newer segment again for each page.
  const outlines = new LRUCache<string, Outline>({ max: MOST_OUTLINES });
  const outlineOf = async (ref: ArtifactRef): Promise<Outline> => {
    const known = outlines.get(ref.sha256);
    if (known !== undefined) return known;
    const { transcript, previous } = await readSegment(artifacts, ref);
    const outline = { from: transcript.from, to: transcript.from + transcript.messages.length, previous };
    outlines.set(ref.sha256, outline);
    return outline;
  };
  const findStored = async (newest: ArtifactRef, from: number): Promise<ArtifactRef | undefined> => {
    for (let ref: ArtifactRef | undefined = newest; ref !== undefined;) {
      const outline: Outline = await outlineOf(ref);
      if (from >= outline.to) return undefined;
      if (from >= outline.from) return ref;
      ref = outline.previous;
    }
    const message = `The stored segments of the run do not reach back to message ${from}.`;
    throw new CountersignError('ARTIFACT_CORRUPT', message);
  };
  return async (workflowId, runId, from, to, segment) => {
    const stored = segment === undefined ? undefined : await findStored(segment, from);
    if (stored !== undefined) {
      const { from: start, messages } = (await readSegment(artifacts, stored)).transcript;
      return messages.slice(from - start, to - start);
    }
    return (await pageOf(client.workflow.getHandle(workflowId, runId), from, to)).messages;
  };
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
