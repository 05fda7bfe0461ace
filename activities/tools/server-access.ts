/** A server of a run as this worker's own configuration has it: where it is, and how tokens for it are obtained. */
import { CountersignError } from '../../contracts/errors.ts';
import type { Config, ServerConfig } from '../../contracts/schemas/config.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import { assertReachable } from '../run/prepare-run.ts';
import type { MintedToken } from '../tokens/port.ts';
import type { ServerConnection } from './port.ts';

export interface ServerAccess {
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: ServerConfig['protocol'];
}

/** Throws where the binding is not what this configuration says: a queue for another zone, or a forged input. */
export function accessTo(config: Config, { name, url }: ServerBinding): ServerAccess {
  const configured = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  if (configured === undefined) {
    assertReachable(config, url, `servers.${name}`);
    return { headers: {}, protocol: 'auto' };
  }
  if (canonicalServerUrl(configured.url) !== url) {
    throw new CountersignError(
      'DISPATCH_FORBIDDEN',
      `The run knows server ${name} under another URL than this worker.`,
    );
  }
  return configured;
}

export function connectionOf(
  { name, url }: ServerBinding,
  { headers, protocol }: ServerAccess,
  token: MintedToken,
): ServerConnection {
  return {
    name,
    url,
    headers,
    protocol,
    secrets: token.secrets,
    ...(token.accessToken === undefined ? {} : { accessToken: token.accessToken }),
  };
}
