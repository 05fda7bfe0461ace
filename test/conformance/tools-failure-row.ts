/** One way in which a server may fail a call, and what must be said of it. */
import { expect } from '@jest/globals';
import type { ServerConnection, ToolCall } from '../../activities/mcp/port.ts';
import { acts, type CallExchange, type Era } from '../support/mcp-raw-server.ts';

export interface FailureRow {
  /** Cited by `matrix-rows.ts`. */
  readonly id: `M-${string}`;
  readonly title: string;
  readonly does: (exchange: CallExchange) => void;
  /** What the ending must match. */
  readonly ends: Readonly<Record<string, unknown>>;
  readonly executions: 0 | 1;
  /** Both where absent. */
  readonly eras?: readonly Era[];
  /** False: a broken stream is not to be had again. */
  readonly resumes?: false;
  readonly connection?: Partial<ServerConnection>;
  readonly call?: Partial<ToolCall>;
}

export const UNKNOWN = { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } as const;
/** Noticed as soon as it happens, not at the deadline. */
export const LOST = { ...UNKNOWN, message: expect.stringContaining('ended without an answer') };
export const LATE = { ...UNKNOWN, message: expect.stringContaining('before the deadline') };
/** Nothing in a redirect says that the server has not acted. */
export const REDIRECTED = { ...UNKNOWN, message: expect.stringContaining('redirect') };
export const refused = <Code extends string>(code: Code) => ({ kind: 'refused', code }) as const;
/** Long enough for a loopback exchange on a loaded machine, short enough to wait for. */
export const SOON = { timeoutMs: 1_000 };

export const ran = (then: (exchange: CallExchange) => void) => acts((exchange) => then(exchange));
export const status = (code: number, headers?: Record<string, string>, body?: string) => (exchange: CallExchange) =>
  exchange.status(code, headers, body);
