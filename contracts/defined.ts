/** Fields that may be undefined become optional, as `exactOptionalPropertyTypes` wants them. */
type Defined<Fields> = {
  [Key in keyof Fields as undefined extends Fields[Key] ? never : Key]: Fields[Key];
} & {
  [Key in keyof Fields as undefined extends Fields[Key] ? Key : never]?: Exclude<Fields[Key], undefined>;
};

/** Leaves out the fields that are undefined. Keeps the order of the others. */
export function defined<Fields extends object>(fields: Fields): Defined<Fields> {
  // Sound: only fields whose value is undefined are taken out, and their types say that they may be missing.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<Fields>;
}

/** Reads a field that an object has itself: names from outside may be `constructor`. */
export function own<T>(fields: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return fields !== undefined && Object.hasOwn(fields, name) ? fields[name] : undefined;
}
