/** Asks for the answer to a call that another worker has sent. */
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import { type AskedAnswer, createMcpAnswerSource } from '../../../activities/mcp/legacy-2025/answer-stream.ts';
import { LEGACY_CALLS } from '../../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../../activities/mcp/mcp-server.ts';
import type { CallProgress, ResumePoint } from '../../../activities/mcp/port.ts';
import type { SealedState } from '../../../contracts/schemas/input.ts';
import { loopbackEgress } from '../egress.ts';
import { aDefinition } from './tool-call.ts';

export const SLOW = aDefinition({ name: 'slow' });

/** Makes another worker each time: workers share nothing but what is given. */
export const worker = () => {
  const parts = { artifacts: createMemoryStore(), egress: loopbackEgress() };
  return { ...createMcpToolServer({ ...parts, legacy: LEGACY_CALLS }), ...createMcpAnswerSource(parts) };
};
/** Stands in for a seal, which has tests of its own. */
export const sealed = (point: ResumePoint): SealedState => ({
  protected: 'p',
  iv: 'i',
  ciphertext: Buffer.from(JSON.stringify(point)).toString('base64url'),
  tag: 't',
});
export const pointIn = ({ ciphertext }: SealedState): ResumePoint =>
  // Sound: `sealed` has written it.
  JSON.parse(Buffer.from(ciphertext, 'base64url').toString()) as ResumePoint;

export type Asking = AskedAnswer & { readonly beats: CallProgress[] };

export function asking(point: ResumePoint, over: Partial<AskedAnswer> = {}): Asking {
  const beats: CallProgress[] = [];
  return {
    point,
    resume: sealed(point),
    definition: SLOW,
    timeoutMs: 20_000,
    resultBytes: 65_536,
    signal: new AbortController().signal,
    heartbeat: (details) => void beats.push(details),
    seal: async (next) => sealed(next),
    beats,
    ...over,
  };
}
