/** Said at every start: who is believed is what all else stands on. */
import type { TrustConfig } from '../../contracts/schemas/trust.ts';

export function trustText(trust: TrustConfig, namespace: string): string {
  return trust.mode === 'temporal'
    ? `temporal. Whoever may write to namespace ${namespace} may start runs and decide, in anybody's name.`
    : `signed. Starts and decisions count where a key of ${trust.jwks} has signed them.`;
}
