/** One tool of a catalog, and what has changed in tools. */
import type { CatalogEntry, CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import { visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { CatalogReading } from '../catalog-reading.ts';
import { reasonText, settingText, statusText, verdictText } from './catalog-setting.ts';
import { shortInstant } from './duration.ts';
import { fields } from './fields.ts';
import { definitionText, diffText, type ToolDiff } from './tool-definition.ts';
import { toolText } from './words.ts';

export function toolAnswer({ snapshot, definitions, verdicts }: CatalogReading, entry: CatalogEntry): Answer {
  const { tenant, server, policyVersion } = snapshot;
  const { name, setting, definition, acknowledged, firstSeen, lastSeen } = entry;
  const known = definitions.get(name);
  const verdict = verdicts.get(name);
  return {
    json: { tenant, server, version: policyVersion, ...entry, verdict, definitions: known },
    text: (paint) => {
      const rows = [
        ['status', statusText(entry)],
        ['setting', settingText(setting)],
        ['a call', verdictText(verdict)],
        ['by', reasonText(verdict)],
        ['definition', definition.hash],
        ['acknowledged', acknowledged?.hash === definition.hash ? 'this definition' : (acknowledged?.hash ?? 'none')],
        ['first seen', shortInstant(firstSeen)],
        ['last seen', shortInstant(lastSeen)],
      ] as const;
      const said = known === undefined ? '' : `\n\n${definitionText(known.current, paint)}`;
      return `${paint('bold', toolText(server, name))}\n${fields(paint, rows)}${said}`;
    },
  };
}

export function diffAnswer(
  { tenant, server, policyVersion }: Pick<CatalogSnapshot, 'tenant' | 'server' | 'policyVersion'>,
  diffs: readonly ToolDiff[],
): Answer {
  return {
    json: {
      tenant,
      server,
      version: policyVersion,
      tools: diffs.map(({ entry: { name, definition, acknowledged }, differences }) => ({
        name,
        acknowledged: acknowledged?.hash,
        definition: definition.hash,
        differences,
      })),
    },
    text: (paint) => {
      if (diffs.length === 0) return `No tool of ${visible(server)} has changed since it was acknowledged.`;
      const shown = diffs.map((diff) => {
        const { name, definition, acknowledged } = diff.entry;
        if (acknowledged?.hash === definition.hash) return diffText(diff, paint);
        const next = `Accept it: countersign catalog allow ${visible(server)} ${quoted(name)} --tenant ${visible(tenant)} --as ID --hash ${definition.hash.slice(0, 12)}`;
        return `${diffText(diff, paint)}\n  ${paint('dim', next)}`;
      });
      return shown.join('\n\n');
    },
  };
}

/** A word of a command line, as a shell reads it back. */
function quoted(name: string): string {
  return /^[\w./-]+$/.test(name) ? name : `'${visible(name).replaceAll("'", "'\\''")}'`;
}
