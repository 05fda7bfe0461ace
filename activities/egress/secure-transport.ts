/** Where secrets may be sent: over TLS, or in clear to this machine, or in clear anywhere by the operator's word. */

/** Of the transport alone: whether this machine may be contacted at all, `guard.ts` says. @param allowInsecure `egress.allowInsecure` of the configuration. */
export function isSecureTransport(url: string, allowInsecure: boolean): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'https:' || (protocol === 'http:' && (allowInsecure || isLoopback(hostname)));
}

/** Names that are this machine by definition (RFC 6761 §6.3). @param hostname as the `URL` class normalises it. */
export function isLocalName(hostname: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(hostname);
}

function isLoopback(hostname: string): boolean {
  return isLocalName(hostname) || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
