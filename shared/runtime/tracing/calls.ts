import { type SpanNotes, type Tracer, traced } from './tracer.ts'

/**
 * `target` with a span around each call of the named methods, which return promises, wherever the caller is itself in
 * a span. Everything else of it stays as it is.
 */
export function traceCalls<T extends object>(
  target: T,
  tracer: Tracer,
  { names, system }: { readonly names: ReadonlySet<string>; readonly system: string },
): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (typeof name === 'symbol' || !names.has(name)) return value.bind(target)
      const notes: SpanNotes = { 'db.system.name': system, 'db.operation.name': name }
      return (...args: unknown[]) =>
        traced(tracer, { name: `${system} ${name}`, kind: 'client', notes }, () =>
          Promise.resolve(Reflect.apply(value, target, args)),
        )
    },
  })
}
