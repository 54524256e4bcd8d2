import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** What Apache Kafka itself says about settings. Fields of a line are separated by tabs; null is \0. */
public class Settings {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "definitions" -> definitions();
            case "topic-values" -> topicValues();
            case "properties" -> properties();
            case "describe" -> describe(args[1]);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static void print(Object... fields) {
        StringBuilder line = new StringBuilder();
        for (Object field : fields) {
            if (line.length() > 0) line.append('\t');
            line.append(field == null ? "\\0" : field.toString().replace("\n", " "));
        }
        System.out.println(line);
    }

    static void definitions() {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (var key : new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys()).values())
            define("broker", key, modes.getOrDefault(key.name, "read-only"));
        for (var key : new TreeMap<>(LogConfig.configDefCopy().configKeys()).values()) {
            var synonyms = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of());
            StringBuilder names = new StringBuilder();
            for (var synonym : synonyms) names.append(synonym.name()).append('*').append(synonym.converter().apply("1")).append(' ');
            define("topic", key, names.toString().strip());
        }
    }

    static void define(String level, ConfigDef.ConfigKey key, String more) {
        boolean required = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
        String text = required ? "required" : ConfigDef.convertToString(key.defaultValue, key.type);
        String allowed = key.validator == null ? "" : key.validator.toString();
        print(level, key.name, key.type, text, allowed, key.internalConfig, more);
    }

    static void topicValues() throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split("\t", -1);
            try {
                LogConfig.validate(Map.of(words[0], words[1]));
                print("ok");
            } catch (ConfigException | ApiException refusal) {
                print(refusal.getMessage());
            }
        }
    }

    static void properties() throws Exception {
        var hex = HexFormat.of();
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            var found = new Properties();
            try {
                found.load(new StringReader(new String(hex.parseHex(line), StandardCharsets.UTF_8)));
            } catch (IllegalArgumentException malformed) {
                print("malformed");
                continue;
            }
            StringBuilder out = new StringBuilder();
            // What an empty key holds depends on how a file's last backslash meets the JDK's buffer.
            found.remove("");
            for (var entry : new TreeMap<Object, Object>(found).entrySet())
                for (Object text : new Object[] {entry.getKey(), entry.getValue()})
                    out.append(hex.formatHex(((String) text).getBytes(StandardCharsets.UTF_8))).append(' ');
            print(out.toString().strip());
        }
    }

    static void describe(String bootstrap) throws Exception {
        var topic = new ConfigResource(ConfigResource.Type.TOPIC, "described");
        var broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        var all = new ConfigResource(ConfigResource.Type.BROKER, "");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Map<String, String> overrides = Map.of("retention.ms", "123456", "cleanup.policy", "compact,delete");
            admin.createTopics(List.of(new NewTopic("described", 1, (short) 1).configs(overrides))).all().get();
            admin.incrementalAlterConfigs(Map.of(
                broker, List.of(set("log.flush.interval.messages", "77"), set("log.roll.ms", "5000000")),
                all, List.of(set("log.segment.bytes", "2000000"), set("message.max.bytes", "3000000")))).all().get();
            var options = new DescribeConfigsOptions().includeSynonyms(true);
            Map<ConfigResource, org.apache.kafka.clients.admin.Config> found;
            do {
                found = admin.describeConfigs(List.of(topic, broker, all), options).all().get();
            } while (found.get(all).entries().size() < 3
                || !has(found.get(broker), "log.flush.interval.messages", "77") || !has(found.get(broker), "log.segment.bytes", "2000000")
                || !has(found.get(topic), "flush.messages", "77") || !has(found.get(topic), "segment.bytes", "2000000"));
            rows("topic", found.get(topic).entries());
            rows("broker", found.get(broker).entries());
            rows("default", found.get(all).entries());
        }
    }

    /** The broker takes its own settings and those of all brokers one after the other. */
    static boolean has(org.apache.kafka.clients.admin.Config config, String name, String value) {
        return value.equals(config.get(name).value());
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static void rows(String what, Collection<ConfigEntry> entries) {
        var sorted = new TreeMap<String, ConfigEntry>();
        for (var entry : entries) sorted.put(entry.name(), entry);
        for (var entry : sorted.values()) {
            StringBuilder synonyms = new StringBuilder();
            for (var synonym : entry.synonyms())
                synonyms.append(synonym.source()).append(':').append(synonym.name()).append('=').append(synonym.value()).append(' ');
            print(what, entry.name(), entry.value(), entry.source(), entry.type(), entry.isReadOnly(), entry.isSensitive(),
                synonyms.toString().strip());
        }
    }
}
