/** Where secrets may be sent: over TLS, or in clear to this machine, or in clear anywhere by the operator's word. */

/** @param allowInsecure `egress.allowInsecure` of the configuration. */
export function isSecureTransport(url: string, allowInsecure: boolean): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === 'https:' || (protocol === 'http:' && (allowInsecure || isLoopback(hostname)));
}

/** @param hostname as the `URL` class normalises it. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
