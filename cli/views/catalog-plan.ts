/** What an import would change. */
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { ImportPlan } from '../../domain/catalog-file.ts';
import { named, visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { ReadCatalogFile } from '../catalog-file.ts';
import { connectionDifferences } from '../catalog-import.ts';
import { settingText } from './catalog-setting.ts';
import { fields } from './fields.ts';
import { count, names, short } from './words.ts';

export function planAnswer(
  { tenant, server, policyVersion, connection }: CatalogSnapshot,
  plan: ImportPlan,
  file: ReadCatalogFile,
): Answer {
  const { tools, refused, outdated, unnamed } = plan;
  const differing = connectionDifferences(connection, file);
  return {
    json: {
      tenant,
      server,
      version: policyVersion,
      changes: tools.map(({ change: { tool, acknowledge }, before, after }) => ({ tool, before, after, acknowledge })),
      refused,
      outdated,
      unnamed,
      connection: differing,
    },
    text: (paint) => {
      const head = `${paint('bold', visible(server))}, version ${policyVersion}: ${tools.length === 0 ? 'nothing would change' : `${count(tools.length, 'tool')} would change`}`;
      const lines = tools.map(({ change: { tool, acknowledge }, before, after }) => {
        const notice = acknowledge === undefined ? '' : `, for definition ${short(acknowledge)}`;
        return `  ${named(tool)}: ${settingText(before)} → ${settingText(after)}${notice}`;
      });
      const rows = [
        ['refused', refused.length === 0 ? '' : `${names(refused)}: loosened, and written for another definition`],
        [
          'changed',
          outdated.length === 0 ? '' : `${names(outdated)}: written for another definition, and not loosened`,
        ],
        ['not named', names(unnamed)],
        ['connection', differing.length === 0 ? '' : `${differing.join(', ')}: other than in the file; use connect`],
      ] as const;
      const notes = rows.every(([, value]) => value === '') ? [] : [fields(paint, rows)];
      return [head, ...lines, ...notes].join('\n');
    },
  };
}
