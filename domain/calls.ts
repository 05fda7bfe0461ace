/** The calls that a model step proposed, in its order. */
import type { ModelStepResult } from '../contracts/activities.ts';
import type { ProposedCall } from '../contracts/schemas/call.ts';

export function callsOf({ parts, malformed }: Pick<ModelStepResult, 'parts' | 'malformed'>): ProposedCall[] {
  return parts.flatMap((part) => {
    if (part.type !== 'call') return [];
    const { callId, providerCallId, name } = part;
    const reason = malformed?.[callId];
    return [
      {
        callId,
        providerCallId,
        name,
        arguments: part.arguments,
        ...(reason === undefined ? {} : { malformed: reason }),
      },
    ];
  });
}
