/** What a token is asked for: one server, and the scopes of one tool (INV-S2). */
import type { ScopeTemplates } from '../../contracts/schemas/credentials.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import type { TokenRequest } from './port.ts';
import { tokenError } from './strategy.ts';

export interface Asked {
  /** Canonical URI (RFC 8707). */
  readonly resource: string;
  readonly scopes: readonly string[];
}

interface Templates {
  readonly resource?: string | undefined;
  readonly scopes: ScopeTemplates;
}

/** @throws CountersignError `TOKEN_REFUSED` where people have consented to a scope that the configuration does not let them */
export function askedFor(
  { resource, scopes }: Templates,
  { server, serverUrl, tool, consented = [] }: TokenRequest,
): Asked {
  // The configuration may say less by now.
  const beyond = consented.find((scope) => !scopes.consentable.includes(scope));
  if (beyond !== undefined || (tool === undefined && consented.length > 0)) {
    const message = `No token for ${server}: people may not consent to a scope of this call (scopes.consentable of its credentials).`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  return {
    resource: canonicalServerUrl(resource ?? serverUrl),
    scopes: [...new Set([...scopesFor(scopes, tool), ...consented])],
  };
}

/** Without what people consent to. */
export function scopesFor(scopes: ScopeTemplates, tool: string | undefined): readonly string[] {
  if (tool === READ_RESOURCE) return scopes.resources ?? [];
  // Own fields only: a tool may be called `constructor`.
  const ofTool = tool !== undefined && Object.hasOwn(scopes.tools, tool) ? scopes.tools[tool] : undefined;
  return tool === undefined ? scopes.discovery : (ofTool ?? scopes.default);
}

/** `resource` and `scope` of a token request. */
export function parametersOf({ resource, scopes }: Asked): Readonly<Record<string, string>> {
  return { resource, ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}) };
}
