/**
 * Reads the forms of catalogs into the messages that catalogs take, and keeps what a refused one held.
 *
 * 1. Only a switch that a person has turned is sent: one that differs from what the page showed.
 */
import { CountersignError } from '../../../contracts/errors.ts';
import type { ToolChange } from '../../../contracts/schemas/catalog.ts';
import type { CatalogSent } from '../../catalog/changes.ts';

export const FLAGS = ['enabled', 'requiresApproval', 'denied'] as const;
export type Flag = (typeof FLAGS)[number];

/** A form that did not count: what was typed and turned, and why it was refused. */
export interface RefusedForm {
  /** Last part of the path that it was sent to. */
  readonly to: string;
  readonly form: URLSearchParams;
  readonly error: CountersignError;
}

export function requestIn(form: URLSearchParams): { readonly requestId: string } {
  const requestId = form.get('requestId') ?? '';
  if (requestId === '') throw invalid('requestId', 'is missing; load the page again');
  return { requestId };
}

export function versionIn(form: URLSearchParams): { readonly requestId: string; readonly expectedVersion: number } {
  const version = form.get('version') ?? '';
  if (!/^\d{1,9}$/.test(version)) throw invalid('version', 'is missing; load the page again');
  return { ...requestIn(form), expectedVersion: Number(version) };
}

type Connection = Extract<CatalogSent, { kind: 'connect' }>['body'];

export function connectionIn(form: URLSearchParams): Connection {
  const stated = ['url', 'credentials', 'taskQueue'].flatMap((name) => {
    const value = form.get(name)?.trim() ?? '';
    return value === '' ? [] : [[name, value] as const];
  });
  return {
    ...requestIn(form),
    trusted: form.get('trusted') === 'yes',
    // An empty field states nothing.
    ...Object.fromEntries(stated),
  };
}

/**
 * The switches that a person has turned: those that differ from what the page showed. A disabled switch was not shown
 * as one to turn, and counts for nothing, whatever its reader may do by now.
 */
export function changesIn(form: URLSearchParams): ToolChange[] {
  return [...form].flatMap(([key, tool]): ToolChange[] => {
    const index = /^tool\.(\d+)$/.exec(key)?.[1];
    if (index === undefined) return [];
    const turned = FLAGS.flatMap((flag) => {
      const shown = form.get(`shown.${flag}.${index}`);
      const wanted = form.has(`${flag}.${index}`);
      return shown === null || (shown === 'on') === wanted ? [] : [[flag, wanted] as const];
    });
    return turned.length === 0 ? [] : [{ tool, ...Object.fromEntries(turned) }];
  });
}

export function invalid(path: string, reason: string): CountersignError {
  return new CountersignError('CATALOG_INVALID', `${path} ${reason}. Nothing was sent.`, { path });
}

export function toolAt({ to, form, error }: RefusedForm): string | undefined {
  const index = /^changes\[(\d+)\]/.exec(error.facts.path ?? '')?.[1];
  return to === 'tools' && index !== undefined ? changesIn(form)[Number(index)]?.tool : undefined;
}
