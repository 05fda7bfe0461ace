/**
 * The canonical URI of a server (RFC 8707 §2, MCP spec "Canonical Server URI"): lower-case scheme and host, no fragment, no
 * default port, no trailing slash on an otherwise empty path. Written by hand because workflow code has no `URL` type.
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
