/**
 * Says who is asking: an id, groups and a tenant from a verified token, and what the operator lets such a person do.
 *
 * 1. Nothing of a request but its token says who sends it.
 * 2. In trust mode `signed` a person is `issuer|subject`, and only the groups and tenants count for which the gateway's
 *    key may speak.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { GatewayConfig } from '../../contracts/schemas/gateway.ts';
import type { Person } from '../../contracts/schemas/http-api.ts';
import { Identifier } from '../../contracts/schemas/json.ts';
import type { IdCase } from '../../contracts/schemas/policy.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import type { Assertion } from '../../contracts/schemas/trust.ts';
import { type Compared, comparing, isNamedIn } from '../../domain/policy/approvers.ts';
import type { Onlooker } from '../../domain/request/onlooker.ts';

export type Right = Person['may'][number];

export interface Asker extends Onlooker {
  readonly may: ReadonlySet<Right>;
  /** End of the token, epoch ms. */
  readonly until: number;
}

/** Claims of a token, as the provider wrote them. */
export interface Claimed {
  readonly id: unknown;
  readonly groups: unknown;
  readonly tenant: unknown;
  /** Seconds since the epoch (RFC 7519 NumericDate). */
  readonly exp: unknown;
}

/** The key of the gateway speaks for these alone. */
export type Voice = Pick<Assertion, 'iss' | 'groups' | 'tenants'>;

/** Groups of one token; a longer list is cut off by providers, and would be incomplete. */
const MOST_GROUPS = 1_000;

export class People {
  readonly #may: GatewayConfig['may'];
  readonly #voice: Voice | undefined;
  readonly #idCase: IdCase | undefined;

  /** @param voice in trust mode `signed`. @param idCase of the organisation's policy */
  constructor(may: GatewayConfig['may'], voice?: Voice, idCase?: IdCase) {
    this.#may = may;
    this.#voice = voice;
    this.#idCase = idCase;
  }

  /** @throws CountersignError `SIGN_IN_REQUIRED` if the claims name nobody of whom runs could be told */
  personOf({ id: subject, groups: claimed, tenant, exp }: Claimed): Asker {
    const id = this.#voice === undefined ? subject : `${this.#voice.iss}|${String(subject)}`;
    if (typeof subject !== 'string' || !Identifier.safeParse(id).success) throw unusable('id');
    if (typeof tenant !== 'string' || !Identifier.safeParse(tenant).success) throw unusable('tenant');
    if (this.#voice !== undefined && !this.#voice.tenants.includes(tenant))
      throw signIn(`The key of this gateway may not speak for tenant ${tenant}.`, ASK_OPERATOR);
    const groups = groupsIn(claimed).filter((group) => this.#voice?.groups.includes(group) ?? true);
    // Sound: checked above; with a voice, it is a text of two parts.
    const person = { id: id as string, groups, tenant, ...comparing({ idCase: this.#idCase }) };
    const may = new Set(
      (['start', 'read', 'administer'] as const).filter((right) => isAmong(this.#may[right], person, subject)),
    );
    return { ...person, may, seesAll: may.has('read') || may.has('administer'), until: Number(exp) * 1_000 };
  }
}

/** @param subject the id without its issuer */
function isAmong(named: GatewayConfig['may'][Right], person: Approver & Compared, subject: string): boolean {
  return isNamedIn(person, named, person) || isNamedIn(person, named, { id: subject, groups: [] });
}

/** A text is a list of one: some providers write it so. Names that no policy can hold are left out. */
function groupsIn(claimed: unknown): readonly string[] {
  if (claimed === undefined || claimed === null) return [];
  const listed: readonly unknown[] = Array.isArray(claimed) ? claimed : [claimed];
  if (listed.length > MOST_GROUPS) throw unusable('groups');
  return listed.flatMap((group) => (typeof group === 'string' && Identifier.safeParse(group).success ? [group] : []));
}

export function shownPerson({ id, groups, tenant, may }: Asker): Person {
  return { id, groups: [...groups], tenant, may: [...may] };
}

const SEND_TOKEN = 'Send a token of the configured issuer: Authorization: Bearer ….';
/** The next step where another token of the same issuer does not help. */
const ASK_OPERATOR = 'Ask whoever runs this gateway.';
/** The next step of whoever comes by browser. */
export const SIGN_IN_AGAIN = 'Sign in again.';

export function signIn(reason: string, next = SEND_TOKEN): CountersignError {
  return new CountersignError('SIGN_IN_REQUIRED', `${reason} ${next}`);
}

function unusable(claim: string): CountersignError {
  return signIn(`The token has no usable claim for ${claim} (oidc.claims).`, ASK_OPERATOR);
}
