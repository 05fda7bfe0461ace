/**
 * What happens to a call of each tool of a catalog: its catalog, and the organisation's policy with it.
 *
 * 1. It asks the very judge that runs ask, so that what is shown is what happens; a run's own policy can still tighten it.
 */
import type { Verdict } from '../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../contracts/schemas/catalog.ts';
import type { ApproverRule, Policy } from '../contracts/schemas/policy.ts';
import { catalogSays, trustsServer } from '../domain/catalog-layer.ts';
import { judge } from '../domain/policy.ts';
import type { KnownDefinitions } from './catalog-definitions.ts';

export type EffectiveVerdict =
  | Exclude<Verdict, { kind: 'ask' }>
  | (Omit<Extract<Verdict, { kind: 'ask' }>, 'approvers'> & {
      /** Absent: whoever starts the run. */
      readonly approvers?: ApproverRule;
    });

export interface Surroundings {
  /** The organisation's. */
  readonly policy: Policy;
  /** Where the server is configured too: whether that trusts its annotations. */
  readonly configuredTrust: boolean | undefined;
}

/** Without them no verdict can differ, so that nobody needs the definitions. */
export function needsAnnotations(snapshot: CatalogSnapshot, surroundings: Surroundings): boolean {
  return surroundings.policy.strategy === 'annotations' && trustsServer(snapshot, surroundings.configuredTrust);
}

/** Stands for the initiator of any run, whom four eyes exclude. */
const WHOEVER = 'the initiator';

/** @param definitions may be empty where `needsAnnotations` says so */
export function effectiveVerdicts(
  snapshot: CatalogSnapshot,
  definitions: ReadonlyMap<string, KnownDefinitions>,
  surroundings: Surroundings,
): ReadonlyMap<string, EffectiveVerdict> {
  const serverTrusted = trustsServer(snapshot, surroundings.configuredTrust);
  return new Map(
    snapshot.entries.map(({ name, definition }) => {
      const layers = {
        organisation: surroundings.policy,
        run: undefined,
        catalog: catalogSays(snapshot, name, definition.hash),
      };
      const annotations = definitions.get(name)?.current.annotations;
      const tool = { server: snapshot.server, tool: name, annotations, serverTrusted };
      return [name, withoutInitiator(judge(layers, tool, WHOEVER))] as const;
    }),
  );
}

function withoutInitiator(verdict: Verdict): EffectiveVerdict {
  if (verdict.kind !== 'ask' || verdict.approvers.allOf.every(({ layer }) => layer !== 'default')) return verdict;
  const { approvers: _, ...rest } = verdict;
  return rest;
}
