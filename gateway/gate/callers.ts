/**
 * Says who calls by MCP: a person or service by an OAuth token for the gate, or by a configured key.
 *
 * 1. A token counts for the gate alone or for the API alone: what an agent has in hand approves nothing.
 * 2. A token ends here. Servers get tokens of their own (INV-S2), and nothing of the caller's.
 * 3. A client is known by its token or its key, never by the name that it gives itself.
 */
import { createHash } from 'node:crypto';
import { CountersignError } from '../../contracts/errors.ts';
import type { GateConfig, GatewayConfig } from '../../contracts/schemas/gateway.ts';
import type { People } from '../identity/person.ts';
import { bearerIn, type Tokens } from '../identity/tokens.ts';
import { gateOrigin, gateUrl, isOfGate } from '../identity/audiences.ts';
import type { Caller } from './calls.ts';

interface Parts {
  readonly config: Pick<GatewayConfig, 'oidc' | 'signIn' | 'development' | 'gate'>;
  readonly gate: GateConfig;
  readonly people: People;
  readonly tokens: Pick<Tokens, 'callerOf'>;
}

export class Callers {
  readonly #parts: Parts;
  /** Hash of a key → the key. */
  readonly #keys: ReadonlyMap<string, GateConfig['keys'][number]>;

  /** @throws CountersignError `CONFIG_INVALID` */
  constructor(parts: Parts) {
    const { config, gate } = parts;
    this.#parts = parts;
    this.#keys = new Map(gate.keys.map((key) => [hashOf(key.secret), key]));
    if (this.#keys.size < gate.keys.length)
      throw refusal('gate.keys', 'has one secret twice: each client has a key of its own');
    for (const [index, { tenant = config.oidc?.tenant }] of gate.keys.entries())
      if (tenant === undefined)
        throw refusal(`gate.keys.${index}`, 'must state a tenant, since gateway.oidc.tenant does not');
    const stated = gate.publicUrl ?? config.signIn?.publicUrl;
    if (stated !== undefined && new URL(stated).pathname !== '/')
      throw refusal('gate.publicUrl', `must have no path, since the gate is at ${gateUrl(config)}`);
    if (config.oidc === undefined) return;
    if (gateOrigin(config) === undefined)
      throw refusal('gate.publicUrl', 'must say under which URL clients reach the gateway');
    if (isOfGate(config, config.oidc.audience))
      throw refusal(
        'gate.audience',
        'is that of gateway.oidc: with the token of an agent anybody could approve its calls. Have the provider issue tokens for the URL of the gate',
      );
  }

  get origin(): string | undefined {
    return gateOrigin(this.#parts.config);
  }

  urlOf(server: string | undefined): string {
    return gateUrl(this.#parts.config, server);
  }

  /** Audiences of which a token must name one. @param server at its own address */
  audiencesOf(server: string | undefined): string[] {
    const { config, gate } = this.#parts;
    return [gate.audience ?? gateUrl(config), ...(server === undefined ? [] : [gateUrl(config, server)])];
  }

  /** @throws CountersignError `SIGN_IN_REQUIRED`, `ACTION_FORBIDDEN`, `TRUST_UNAVAILABLE` */
  async callerOf(authorization: string | undefined, server: string | undefined): Promise<Caller> {
    const caller = this.#byKey(bearerIn(authorization)) ?? (await this.#byToken(authorization, server));
    if (caller.asker.may.has('start')) return caller;
    const message =
      'You may not have calls made here. Ask an operator to name you, or a group of yours, in gateway.may.start.';
    throw new CountersignError('ACTION_FORBIDDEN', message);
  }

  async #byToken(authorization: string | undefined, server: string | undefined): Promise<Caller> {
    const { asker, client } = await this.#parts.tokens.callerOf(authorization, this.audiencesOf(server));
    return { asker, client: `token/${client}` };
  }

  #byKey(token: string): Caller | undefined {
    const key = this.#keys.get(hashOf(token));
    if (key === undefined) return undefined;
    const { config, people } = this.#parts;
    const { id, groups, client, tenant = config.oidc?.tenant } = key;
    return { asker: people.personOf({ id, groups, tenant, exp: Number.POSITIVE_INFINITY }), client: `key/${client}` };
  }
}

/** The hash is looked up: how long that takes says nothing of the secret. */
function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

function refusal(field: string, reason: string): CountersignError {
  const path = `gateway.${field}`;
  return new CountersignError('CONFIG_INVALID', `The gateway does not start: ${path} ${reason}.`, { path });
}
