/** Says whether secrets may be sent to a URL (`domain/text/urls.ts`). */
import { isSecurelyReached } from '../../domain/text/urls.ts';

/**
 * Checks the transport alone; `guard.ts` says whether a machine may be contacted at all.
 * @param allowInsecure `egress.allowInsecure` of the configuration
 */
export function isSecureTransport(url: string, allowInsecure: boolean): boolean {
  return isSecurelyReached(new URL(url), allowInsecure);
}
