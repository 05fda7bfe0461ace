/** Discovery owns what the server says, operators own policy, in whatever order they speak (S3.2). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { CatalogEntry, ToolChange } from '../../../../contracts/schemas/catalog.ts';
import { discovered, refreshFailed, settingOfNew } from '../../../../domain/catalog/discovery.ts';
import { changedSetting, planned, policiesSet } from '../../../../domain/catalog/settings.ts';
import { type Catalog, connected, entryOf } from '../../../../domain/catalog/state.ts';
import { listed, ruleChange } from '../../../support/builders/catalog-arbitraries.ts';
import { ann, at, catalogOf, connection, foundTools, listing } from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

type Step =
  | { readonly kind: 'refresh'; readonly tools: Readonly<Record<string, string>> }
  | { readonly kind: 'fail' }
  | { readonly kind: 'policy'; readonly change: ToolChange; readonly acknowledges: boolean }
  | { readonly kind: 'move' };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('refresh' as const), tools: listed }),
  fc.record({ kind: fc.constant('policy' as const), change: ruleChange, acknowledges: fc.boolean() }),
  fc.constantFrom<Step>({ kind: 'fail' }, { kind: 'move' }),
);

type PolicyStep = Extract<Step, { kind: 'policy' }>;

function changeOf(known: CatalogEntry | undefined, { change, acknowledges }: PolicyStep): ToolChange {
  return acknowledges && known ? { ...change, acknowledge: known.definition.hash } : change;
}

/** A missing tool cannot be acknowledged. */
function isTaken(catalog: Catalog, change: PolicyStep): boolean {
  return planned(catalog, [changeOf(entryOf(catalog, change.change.tool), change)]).kind === 'plan';
}

/** What discovery owns, and what operators own. */
const discoveredOf = ({ name, status, definition: seen, firstSeen, lastSeen }: CatalogEntry) => ({
  name,
  status,
  seen,
  firstSeen,
  lastSeen,
});
const statedOf = ({ setting, acknowledged, spokenOf }: CatalogEntry) => ({ setting, acknowledged, spokenOf });

describe('S3.2: in any order of refreshes and changes of policy', () => {
  function after(catalog: Catalog, refresh: number, each: Step): Catalog {
    switch (each.kind) {
      case 'refresh':
        return discovered(catalog, foundTools(refresh, each.tools), at(refresh)).catalog;
      case 'fail':
        return refreshFailed(catalog, refresh, { code: 'DISCOVERY_FAILED', message: 'away' }, at(refresh)).catalog;
      case 'move':
        return connected(catalog, connection({ url: `https://files.example/${refresh}` }), ann).catalog;
      case 'policy': {
        const known = entryOf(catalog, each.change.tool);
        const plan = planned(catalog, [changeOf(known, each)]);
        return plan.kind === 'plan' ? policiesSet(catalog, plan, ann).catalog : catalog;
      }
    }
  }

  const inOrder = (steps: readonly Step[], check: (was: Catalog, is: Catalog, each: Step, refresh: number) => void) => {
    let catalog = catalogOf();
    for (const [index, each] of steps.entries()) {
      const next = after(catalog, index + 1, each);
      check(catalog, next, each, index + 1);
      catalog = next;
    }
    return catalog;
  };

  test('a refresh changes no setting and no acknowledgement, and a change of policy nothing that the server said', () => {
    forAll(fc.array(step, { maxLength: 12 }), (steps) => {
      inOrder(steps, (was, is, each) => {
        if (each.kind === 'refresh' || each.kind === 'fail')
          for (const entry of was.entries) expect(statedOf(entryOf(is, entry.name) ?? entry)).toEqual(statedOf(entry));
        else if (each.kind === 'policy') expect(is.entries.map(discoveredOf)).toEqual(was.entries.map(discoveredOf));
        // Another server: nothing is known of its tools until it has listed them.
        else expect(is.entries.every(({ status }) => status === 'missing')).toBe(true);
      });
    });
  });

  test('no tool is lost, and each has what was last said of it', () => {
    forAll(fc.array(step, { maxLength: 12 }), (steps) => {
      const known = new Map<string, CatalogEntry['setting']>();
      const last = inOrder(steps, (was, _is, each) => {
        if (each.kind === 'refresh')
          for (const name of Object.keys(each.tools)) known.set(name, known.get(name) ?? settingOfNew(was.newTools));
        const setting = each.kind === 'policy' ? known.get(each.change.tool) : undefined;
        if (each.kind === 'policy' && setting !== undefined && isTaken(was, each))
          known.set(each.change.tool, changedSetting(setting, each.change));
      });
      expect(new Map(last.entries.map(({ name, setting }) => [name, setting]))).toEqual(known);
    });
  });

  test('every definition and acknowledgement has its listing', () => {
    forAll(fc.array(step, { maxLength: 12 }), (steps) => {
      inOrder(steps, (_was, is) => {
        for (const { definition: seen, acknowledged } of is.entries)
          for (const each of [seen, ...(acknowledged === undefined ? [] : [acknowledged])])
            expect(is.listings[each.refresh]).toEqual(listing(each.refresh));
      });
    });
  });

  test('versions grow with policy and connection, and not with a refresh', () => {
    forAll(fc.array(step, { maxLength: 12 }), (steps) => {
      inOrder(steps, (was, is, each) => {
        const isOurs = each.kind === 'move' || (each.kind === 'policy' && is !== was);
        expect(is.policyVersion - was.policyVersion).toBe(isOurs ? 1 : 0);
      });
    });
  });
});
