/** Whether secrets may be sent to a URL (`domain/text/urls.ts`). */
import { isSecurelyReached } from '../../domain/text/urls.ts';

/** Of the transport alone: whether this machine may be contacted at all, `guard.ts` says. @param allowInsecure `egress.allowInsecure` of the configuration. */
export function isSecureTransport(url: string, allowInsecure: boolean): boolean {
  return isSecurelyReached(new URL(url), allowInsecure);
}
