/**
 * Explains what the policy of the organisation says of a call, before anybody makes it.
 *
 * 1. Policy names people and limits, so only those are told who start runs, see all of them, or administer something.
 * 2. A call is judged for the tenant of the person who asks.
 * 3. Conditions that a person sends are read and asked within limits of time, one policy at a time: a person's second
 *    waits for the first, then for one of each other person at most.
 */
import { Lanes } from '../../client/engine/engine.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ExplainBody, Explained } from '../../contracts/schemas/http/records.ts';
import type { PolicyCase } from '../../contracts/schemas/policy-cases.ts';
import { keyOf } from '../http/server.ts';
import type { Waiters } from '../http/streams.ts';
import type { Asker } from '../identity/person.ts';

export type AskedCase = Omit<PolicyCase, 'name' | 'expect' | 'rules' | 'told' | 'approvers' | 'deadlineSeconds'>;

/** Judges a call as workers do. @throws CountersignError `SPEC_INVALID` for a run's policy that cannot be evaluated */
export type Explain = (asked: AskedCase) => Promise<Pick<Explained, 'verdict'> & { readonly layers: Layers }>;
type Layers = readonly {
  readonly layer: Explained['layers'][number]['layer'];
  readonly considered: readonly Explained['layers'][number]['considered'][number][];
}[];

export class Explaining {
  readonly #explain: Explain;
  readonly #administers: (asker: Asker) => boolean;
  readonly #waiters: Pick<Waiters, 'hold'>;
  readonly #lanes = new Lanes(1);

  /** @param administers true if the person may see catalogs of the tenant */
  constructor(explain: Explain, administers: (asker: Asker) => boolean, waiters: Pick<Waiters, 'hold'>) {
    this.#explain = explain;
    this.#administers = administers;
    this.#waiters = waiters;
  }

  /** @throws CountersignError `ACTION_FORBIDDEN`, `SPEC_INVALID`; `RATE_LIMITED` if too many of the person wait */
  async explain(asker: Asker, body: ExplainBody): Promise<Explained> {
    if (asker.may.size === 0 && !this.#administers(asker)) {
      const message =
        'You may not read the policy here. Ask an operator to name you, or a group of yours, in gateway.may or catalog.administrators.';
      throw new CountersignError('ACTION_FORBIDDEN', message);
    }
    const { server, tool, annotations, initiator = asker.id, initiatorGroups, args, turn, at, earlier, run } = body;
    const own = initiator === asker.id ? asker.groups : [];
    const { verdict, layers } = await this.#judged(asker, {
      call: `${server}/${tool}`,
      initiator,
      initiatorGroups: [...(initiatorGroups ?? own)],
      tenant: asker.tenant,
      args,
      turn,
      earlier,
      ...defined({ annotations, at, run }),
    });
    return {
      server,
      tool,
      verdict,
      layers: layers.map(({ layer, considered }) => ({
        layer,
        considered: considered.map(({ rule, action, condition, holds, decides }) => ({
          rule,
          action,
          ...defined({ condition }),
          holds,
          decides,
        })),
      })),
    };
  }

  async #judged(asker: Asker, asked: AskedCase): ReturnType<Explain> {
    const judged = async (): ReturnType<Explain> => await this.#explain(asked);
    if (asked.run?.rules?.some(({ when }) => when !== undefined) !== true) return await judged();
    const person = keyOf(asker);
    return await this.#waiters.hold(
      person,
      async () => await this.#lanes.run(person, async () => await this.#lanes.run(EVERYBODY, judged)),
    );
  }
}

/** No key of a person. */
const EVERYBODY = 'everybody';
