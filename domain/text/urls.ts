/** URLs of servers are compared and judged here without the `URL` class, which workflow code does not have. */

/**
 * Canonical URI of a server (RFC 8707 §2, MCP spec "Canonical Server URI"): lower-case scheme and host, no fragment, no
 * default port, no trailing slash on an otherwise empty path.
 */
export function canonicalServerUrl(url: string): string {
  return url.replace(
    /^(https?):\/\/([^/?#]+)([^#]*)(?:#.*)?$/is,
    (_all, scheme: string, authority: string, rest: string) => {
      const protocol = scheme.toLowerCase();
      const host = authority.toLowerCase().replace(protocol === 'https' ? /:443$/ : /:80$/, '');
      return `${protocol}://${host}${rest === '/' ? '' : rest}`;
    },
  );
}

// Secrets travel over TLS, in clear to this machine, or in clear anywhere if the operator allows it.

/** Parts of a URL as the `URL` class normalises it; workflow code, which shares this folder, has no such type. */
export interface Reached {
  readonly protocol: string;
  readonly hostname: string;
}

/** True if secrets may be sent to this URL. @param allowInsecure `egress.allowInsecure` */
export function isSecurelyReached({ protocol, hostname }: Reached, allowInsecure: boolean): boolean {
  return protocol === 'https:' || (protocol === 'http:' && (allowInsecure || isLoopback(hostname)));
}

/** True for names that mean this machine by definition (RFC 6761 §6.3). */
export function isLocalName(hostname: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(hostname);
}

function isLoopback(hostname: string): boolean {
  return isLocalName(hostname) || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

/** URL parameters that hold secrets, in specs and configurations alike (INV-S1): `?key=`, `?sig=`, `?exaApiKey=`. */
const SECRET_NAME = /(key|token|secret|sig|signature|code|auth|authorization|password|passwd|credentials?)$/i;

/** @param name of a parameter, decoded */
export function namesSecret(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** True if a text has a parameter with such a name and a value, as in the query or fragment of a URL. */
export function hasSecretParameter(text: string): boolean {
  return text
    .split(/[?&#]/)
    .slice(1)
    .some((parameter) => {
      const end = parameter.indexOf('=');
      // A name with a space is no parameter: prose has `&` and `?` too.
      return end > 0 && !/\s/.test(parameter.slice(0, end)) && namesSecret(decoded(parameter.slice(0, end)));
    });
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
