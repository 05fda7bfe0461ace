/** Where secrets may be sent: over TLS, or in clear to this machine, or in clear anywhere by the operator's word. */

/** Of a URL as the `URL` class normalises it: workflow code, which shares this folder, has no such type. */
export interface Reached {
  readonly protocol: string;
  readonly hostname: string;
}

/** @param allowInsecure `egress.allowInsecure` of the configuration */
export function isSecurelyReached({ protocol, hostname }: Reached, allowInsecure: boolean): boolean {
  return protocol === 'https:' || (protocol === 'http:' && (allowInsecure || isLoopback(hostname)));
}

/** Names that are this machine by definition (RFC 6761 §6.3). */
export function isLocalName(hostname: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(hostname);
}

function isLoopback(hostname: string): boolean {
  return isLocalName(hostname) || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
