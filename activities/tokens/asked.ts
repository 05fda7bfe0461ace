/** What a token is asked for: one server, and the scopes of one tool (INV-S2). */
import type { ScopeTemplates } from '../../contracts/schemas/credentials.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import type { TokenRequest } from './port.ts';

export interface Asked {
  /** Canonical URI (RFC 8707). */
  readonly resource: string;
  readonly scopes: readonly string[];
}

interface Templates {
  readonly resource?: string | undefined;
  readonly scopes: ScopeTemplates;
}

export function askedFor({ resource, scopes }: Templates, { serverUrl, tool }: TokenRequest): Asked {
  // Own fields only: a tool may be called `constructor`.
  const ofTool = tool !== undefined && Object.hasOwn(scopes.tools, tool) ? scopes.tools[tool] : undefined;
  const asked = tool === undefined ? scopes.discovery : (ofTool ?? scopes.default);
  return { resource: canonicalServerUrl(resource ?? serverUrl), scopes: [...new Set(asked)] };
}

/** `resource` and `scope` of a token request. */
export function parametersOf({ resource, scopes }: Asked): Readonly<Record<string, string>> {
  return { resource, ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}) };
}
