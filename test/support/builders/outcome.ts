import type { Outcome, ToolResult } from '../../../contracts/schemas/call.ts';

export function toolResult(over: Partial<ToolResult> = {}): ToolResult {
  return { content: [{ type: 'text', text: 'done' }], ...over };
}

type OutcomeOf<Kind extends Outcome['kind']> = Extract<Outcome, { kind: Kind }>;

/** Makes one outcome of each kind. */
export function outcomes(): { readonly [Kind in Outcome['kind']]: OutcomeOf<Kind> } {
  return {
    succeeded: { kind: 'succeeded', result: toolResult() },
    failed: { kind: 'failed', code: 'TOOL_FAILED', message: 'disk full', executed: true },
    denied: { kind: 'denied', code: 'POLICY_DENIED', message: 'files/write_file is denied.' },
    rejected: { kind: 'rejected', by: 'ann', reason: 'not today' },
    expired: { kind: 'expired', deadline: '2026-01-01T01:00:00.000Z' },
    cancelled: { kind: 'cancelled', reason: 'The run was stopped.' },
    answered: { kind: 'answered', by: 'ann', answer: 'It is done by hand.' },
    unknown: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'The answer was lost.' },
  };
}
