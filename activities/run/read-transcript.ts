/**
 * Reads a run's conversation: from stored segments what is closed, and the rest by query of the living execution.
 * Queries go to one Temporal run id: a run that has continued as new does not answer in its place.
 */
import type { Client, WorkflowHandle } from '@temporalio/client';
import { QUERIES } from '../../contracts/names.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { Segment } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { TranscriptPage } from '../../contracts/schemas/run-state.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { ArtifactStore } from '../artifacts/port.ts';

/** Returns the first messages, as many as are wanted, or fewer if the run does not have them. */
export type ReadTranscript = (
  workflowId: string,
  runId: string,
  wanted: number,
  segment?: ArtifactRef,
) => Promise<readonly Message[]>;

export function createTranscriptReader(artifacts: ArtifactStore, client: Pick<Client, 'workflow'>): ReadTranscript {
  return async (workflowId, runId, wanted, segment) => {
    const stored: (readonly Message[])[] = [];
    for await (const { transcript } of segmentsUpTo(artifacts, segment)) stored.unshift(transcript.messages);
    const messages = stored.flat();
    const run = client.workflow.getHandle(workflowId, runId);
    while (messages.length < wanted) {
      const page = await pageOf(run, messages.length, wanted);
      if (page.messages.length === 0) break;
      for (const message of page.messages) messages.push(message);
    }
    return messages.slice(0, wanted);
  };
}

/** Reads a chain of stored segments, the newest first. */
async function* segmentsUpTo(artifacts: ArtifactStore, newest: ArtifactRef | undefined): AsyncGenerator<Segment> {
  for (let ref = newest; ref !== undefined;) {
    const segment = await readSegment(artifacts, ref);
    yield segment;
    ref = segment.previous;
  }
}

export async function pageOf(run: Pick<WorkflowHandle, 'query'>, from: number, to: number): Promise<TranscriptPage> {
  return await run.query<TranscriptPage, [number, number]>(QUERIES.transcript, from, to);
}

export type ReadMessage = (workflowId: string, runId: string, at: number) => Promise<Message | undefined>;

/** Reads one message as the run itself has it. */
export function createMessageReader(artifacts: ArtifactStore, client: Pick<Client, 'workflow'>): ReadMessage {
  return async (workflowId, runId, at) => {
    const page = await pageOf(client.workflow.getHandle(workflowId, runId), at, at + 1);
    if (at >= page.from) return page.messages[0];
    for await (const { transcript } of segmentsUpTo(artifacts, page.segment))
      if (at >= transcript.from) return transcript.messages[at - transcript.from];
    return undefined;
  };
}

export async function readSegment(artifacts: Pick<ArtifactStore, 'get'>, ref: ArtifactRef): Promise<Segment> {
  const value: unknown = JSON.parse(new TextDecoder().decode(await artifacts.get(ref)));
  return parseAs(Segment, value, 'ARTIFACT_CORRUPT', 'stored segment');
}
