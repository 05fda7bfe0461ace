/**
 * Takes the tokens out of what a caller starts a run with: the spec that is left has none, and may leave the process.
 *
 * 1. A token stands at its server, as `authorization`: a plain OAuth access token. The map `authorizations` says the same
 *    by name; where both speak of one server, the field counts.
 * 2. No error contains any part of a token (INV-S1).
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';

type ServerInput = NonNullable<RunSpecInput['servers']>[number];

/** A server of the run, with the token for it. */
type StartServer = ServerInput & {
  /** OAuth access token for this server; `Bearer` may stand before it. It is sealed, and never sent in clear. */
  readonly authorization?: string | undefined;
};

/** A run spec with tokens at its servers. */
export type StartSpec = Omit<RunSpecInput, 'servers'> & { readonly servers?: readonly StartServer[] | undefined };

export interface GivenToken {
  readonly token: string;
  /** Its place, for errors. */
  readonly path: string;
}

interface Taken {
  readonly spec: RunSpecInput;
  readonly tokens: ReadonlyMap<string, GivenToken>;
}

/** @throws CountersignError `SPEC_INVALID` */
export function takeTokens(given: StartSpec, authorizations: Readonly<Record<string, string>> = {}): Taken {
  const tokens = new Map<string, GivenToken>(
    Object.entries(authorizations).map(([server, token]) => [server, { token, path: `authorizations.${server}` }]),
  );
  const { servers, ...others } = given;
  // A caller without types may have written anything; its shape is checked with that of the spec.
  if (!Array.isArray(servers)) return { spec: given as RunSpecInput, tokens };
  // Sound: so the parameter declares them.
  const left = (servers as readonly StartServer[]).map((server, index): ServerInput => {
    if (typeof server !== 'object' || server === null || !('authorization' in server)) return server;
    const { authorization, ...rest } = server;
    if (authorization === undefined) return rest;
    const path = `servers[${index}].authorization`;
    if (typeof authorization !== 'string') {
      const message = `${path} must be a plain OAuth access token, as text. Nothing was started.`;
      throw new CountersignError('SPEC_INVALID', message, { path });
    }
    tokens.set(rest.name, { token: authorization, path });
    return rest;
  });
  return { spec: { ...others, servers: left }, tokens };
}
